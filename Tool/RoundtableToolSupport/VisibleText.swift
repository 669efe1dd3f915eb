import Foundation
import RoundtableKernel

// Texts, names and paths of other programs may contain control characters, which a terminal would obey.

extension String {
    /// The text as one line, with a dot for each control character.
    package var visibleLine: String { isPlain ? self : String(map { $0.isControl ? "·" : $0 }) }

    /// The text with a dot for each control character except line ends and tabs.
    package var visibleText: String { String(map { $0.isControl && $0 != "\n" && $0 != "\t" ? "·" : $0 }) }

    /// JSON text with an escape for each control character and direction mark that encoders leave as it is. They occur only in its strings,
    /// whose values stay the same.
    package var visibleJSON: String {
        if isPlain || !unicodeScalars.contains(where: { $0.controlsText && $0 != "\n" }) { return self }
        return unicodeScalars.reduce(into: "") { text, scalar in
            if scalar.controlsText, scalar != "\n" {
                text += scalar.escape
            } else {
                text.unicodeScalars.append(scalar)
            }
        }
    }
}

extension Unicode.Scalar {
    /// The escape of JSON for a control character or a direction mark. All of them are in the first plane.
    package var escape: String {
        switch self {
        case "\n": "\\n"
        case "\r": "\\r"
        case "\t": "\\t"
        default: String(format: "\\u%04x", value)
        }
    }
}

extension String {
    /// Whether the text has only ASCII characters, and no control characters. Most texts are plain, and this check is fast.
    package var isPlain: Bool { utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F } }
}

extension Character {
    package var isControl: Bool { unicodeScalars.contains(where: \.controlsText) }
}
