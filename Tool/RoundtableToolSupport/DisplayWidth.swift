// The columns that text takes on a terminal, by Unicode Standard Annex #11 (East Asian Width) and Unicode Technical Standard #51 (emoji).

extension String {
    /// The number of terminal columns that the text takes. A control character takes one, because a dot replaces it.
    package var displayWidth: Int { isPlain ? utf8.count : reduce(0) { $0 + $1.displayWidth } }

    /// The text with spaces up to the next tab stop instead of each tab. The tab stops are those of terminals, in each eighth column.
    package var withExpandedTabs: String {
        guard utf8.contains(UInt8(ascii: "\t")) else { return self }
        var (text, column) = ("", 0)
        for character in self {
            if character == "\t" {
                let count = 8 - column % 8
                text += String(repeating: " ", count: count)
                column += count
            } else {
                text.append(character)
                column += character.displayWidth
            }
        }
        return text
    }

    /// The longest beginning that takes at most `columns` columns.
    package func prefix(columns: Int) -> String {
        if isPlain { return String(prefix(max(0, columns))) }
        var (text, rest) = ("", columns)
        for character in self {
            rest -= character.displayWidth
            if rest < 0 { break }
            text.append(character)
        }
        return text
    }

    package func padded(to width: Int, _ alignment: TextTable.Alignment = .left) -> String {
        let padding = String(repeating: " ", count: max(0, width - displayWidth))
        return alignment == .left ? self + padding : padding + self
    }
}

extension Character {
    /// The number of terminal columns that the character takes: 0 for a mark without a base, 2 for an emoji and for characters of some scripts.
    package var displayWidth: Int {
        if isASCII || isControl { return 1 }
        if isEmoji { return 2 }
        return unicodeScalars.reduce(0) { $0 + $1.displayWidth }
    }

    /// Whether a terminal shows the character as a picture, which takes two columns whatever number of scalars it has. A flag has two regional
    /// indicators, a keycap or a symbol has a variation selector, and a sequence with joiners or a skin tone has an emoji in it.
    private var isEmoji: Bool {
        // A variation selector behind a character that is no emoji has no effect.
        var canBeEmoji = false
        for (index, scalar) in unicodeScalars.enumerated() where scalar.value >= 0x2000 || index == 0 {
            if scalar.properties.isEmojiPresentation, !scalar.isRegionalIndicator { return true }
            if scalar.isRegionalIndicator, index > 0 { return true }
            if scalar.value == 0xFE0F, canBeEmoji { return true }
            canBeEmoji = scalar.properties.isEmoji
        }
        return false
    }
}

extension Unicode.Scalar {
    fileprivate var isRegionalIndicator: Bool { (0x1F1E6...0x1F1FF).contains(value) }

    /// The columns of the scalar alone, as wcwidth(3) counts them.
    fileprivate var displayWidth: Int {
        // The combining marks begin at U+0300. The soft hyphen before them is shown by terminals.
        if value < 0x300 { return 1 }
        switch properties.generalCategory {
        case .nonspacingMark, .enclosingMark: return 0
        case .format where properties.isDefaultIgnorableCodePoint: return 0
        default: break
        }
        // The vowels and final consonants of Hangul are shown in the columns of the consonant before them.
        if (0x1160...0x11FF).contains(value) || (0xD7B0...0xD7FB).contains(value) { return 0 }
        return isWide ? 2 : 1
    }

    /// Whether the East Asian Width is W or F. Emoji that are wide without a variation selector are not listed here.
    private var isWide: Bool {
        switch value {
        case 0x1100...0x115F, 0x2329...0x232A, 0x2E80...0x303E, 0x3041...0x3247, 0x3250...0x4DBF, 0x4E00...0xA4CF,
            0xA960...0xA97C, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE10...0xFE19, 0xFE30...0xFE6B, 0xFF01...0xFF60,
            0xFFE0...0xFFE6, 0x16FE0...0x18D08, 0x1AFF0...0x1B2FF, 0x1F200...0x1F265, 0x20000...0x2FFFD,
            0x30000...0x3FFFD:
            true
        default: false
        }
    }
}
