import RoundtableKernel

// Texts, names and paths of other programs may contain control characters, which a terminal would obey.

extension String {
    /// The text as one line, with a dot for each control character.
    var visibleLine: String { isPlain ? self : String(map { $0.isControl ? "·" : $0 }) }

    /// The text with a dot for each control character except line ends and tabs.
    var visibleText: String { String(map { $0.isControl && $0 != "\n" && $0 != "\t" ? "·" : $0 }) }
}

extension String {
    /// Whether the text has only ASCII characters, and no control characters. Most texts are plain, and this check is fast.
    var isPlain: Bool { utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F } }
}

extension Character {
    var isControl: Bool { unicodeScalars.contains(where: \.controlsText) }
}
