// Names that other processes have written may contain characters that a terminal obeys, or that change the order in which text is shown.

extension Unicode.Scalar {
    /// Whether the scalar controls how text is shown: a control character, a line or paragraph separator, or a direction mark.
    package var controlsText: Bool {
        switch value {
        case 0x00...0x1F, 0x7F...0x9F: true
        case 0x061C, 0x200E, 0x200F, 0x2028...0x202E, 0x2066...0x2069: true
        default: false
        }
    }
}

extension String {
    /// The text with a dot for each scalar that controls how text is shown.
    package var withVisibleControls: String {
        guard unicodeScalars.contains(where: \.controlsText) else { return self }
        var text = String.UnicodeScalarView()
        text.append(contentsOf: unicodeScalars.lazy.map { $0.controlsText ? "·" : $0 })
        return String(text)
    }

    /// What a file or a process of another user says, as a part of a message: one line of visible text, at most 240 scalars long.
    package var claim: String {
        let limit = 240
        guard unicodeScalars.count > limit else { return withVisibleControls }
        return String(unicodeScalars.prefix(limit)).withVisibleControls + "…"
    }
}
