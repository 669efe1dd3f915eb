// Commands that a message advises are copied from a terminal and run, and the names in them are of other users.

extension String {
    /// The text as one word of a shell. Quotes are found among the Unicode scalars, as a shell finds them, because a quote with a combining
    /// accent is one Character.
    ///
    /// A text with a scalar that controls how text is shown, such as a line end, becomes `$'…'` with escapes, which bash, ksh, zsh and
    /// POSIX.1-2024 (Shell Command Language, 2.2.4) read. It then shows what it is, and is one line. A shell that does not know `$'…'`, such as
    /// dash, reads a `$` and a word in single quotes, so neither a quote nor a backslash in the word may end it: both are octal escapes.
    package var shellQuoted: String {
        if !isEmpty, utf8.allSatisfy(Self.plainBytes.contains) { return self }
        let needsEscapes = unicodeScalars.contains(where: \.controlsText)
        var word = String.UnicodeScalarView(needsEscapes ? "$'".unicodeScalars : "'".unicodeScalars)
        for scalar in unicodeScalars {
            switch scalar {
            case "'" where !needsEscapes: word.append(contentsOf: "'\\''".unicodeScalars)
            case _ where needsEscapes && (scalar == "'" || scalar == "\\" || scalar.controlsText):
                word.append(contentsOf: scalar.octalEscapes.unicodeScalars)
            default: word.append(scalar)
            }
        }
        word.append("'")
        return String(word)
    }

    /// A path as one word of a shell, which no program takes for an option.
    package var shellQuotedPath: String { (utf8.first == UInt8(ascii: "-") ? "./" + self : self).shellQuoted }

    private static let plainBytes = Set(
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_./:=@%+,".utf8
    )
}

extension Unicode.Scalar {
    /// The bytes of UTF-8, each as a backslash and three octal digits. A digit that follows does not belong to them.
    fileprivate var octalEscapes: String {
        UTF8.encode(self).map { bytes in
            bytes.map { byte in
                let digits = String(byte, radix: 8)
                return "\\" + String(repeating: "0", count: 3 - digits.utf8.count) + digits
            }.joined()
        } ?? ""
    }
}
