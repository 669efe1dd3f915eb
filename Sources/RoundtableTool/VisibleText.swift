// Texts and names that others have written, paths among them, may have control characters in them, which a terminal would take for orders.

extension String {
    /// One line, with a dot for each control character.
    var visibleLine: String { isPlain ? self : String(map { $0.isControl ? "·" : $0 }) }

    /// The same, of text that may have several lines.
    var visibleText: String { String(map { $0.isControl && $0 != "\n" && $0 != "\t" ? "·" : $0 }) }
}

extension String {
    /// Whether it is of ASCII characters alone, none of which is a control character: as most is, and quickly seen.
    var isPlain: Bool { utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F } }
}

extension Character {
    fileprivate var isControl: Bool { unicodeScalars.contains { $0.properties.generalCategory == .control } }
}
