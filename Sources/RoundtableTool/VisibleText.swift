// Texts and names that others have written, paths among them, may have control characters in them, which a terminal would take for orders.

extension String {
    /// One line, with a dot for each control character.
    var visibleLine: String { String(map { $0.isControl ? "·" : $0 }) }

    /// The same, of text that may have several lines.
    var visibleText: String { String(map { $0.isControl && $0 != "\n" && $0 != "\t" ? "·" : $0 }) }
}

extension Character {
    fileprivate var isControl: Bool { unicodeScalars.contains { $0.properties.generalCategory == .control } }
}
