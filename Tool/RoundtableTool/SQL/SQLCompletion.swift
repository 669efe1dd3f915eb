import GRDBSQLite

/// The words that complete a word of SQL, as they are inserted into it: a name that needs quotes has them.
enum SQLCompletion {
    /// - parameter word: with its quote at the beginning, if it has one. It is not closed.
    static func words(for word: String, names: [String], keywords: [String]) -> [String] {
        if let quote = word.unicodeScalars.first, LineEditor.quotes.contains(Character(quote)) {
            return names.map { quoted($0, quote) }.filter { begins($0, with: word) }
        }
        return names.filter { begins($0, with: word) }.map { needsQuotes($0) ? quoted($0, "\"") : $0 }
            + keywords.filter { begins($0, with: word) }
    }

    private static func begins(_ name: String, with word: String) -> Bool {
        name.lowercased().hasPrefix(word.lowercased())
    }

    /// Whether SQLite takes a name for something else without quotes (<https://www.sqlite.org/lang_keywords.html>).
    static func needsQuotes(_ name: String) -> Bool {
        let bytes = Array(name.utf8)
        guard let first = bytes.first, !isDigit(first), bytes.allSatisfy({ isLetter($0) || isDigit($0) }) else {
            return true
        }
        return sqlite3_keyword_check(name, Int32(bytes.count)) != 0
    }

    /// SQLite takes each byte that is not ASCII for a letter.
    private static func isLetter(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "_"), 0x80...:
            true
        default: false
        }
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }

    /// The quotes are found among the Unicode scalars, as SQLite finds them.
    private static func quoted(_ name: String, _ quote: Unicode.Scalar) -> String {
        var text = String.UnicodeScalarView([quote])
        for scalar in name.unicodeScalars { text.append(contentsOf: scalar == quote ? [quote, quote] : [scalar]) }
        text.append(quote)
        return String(text)
    }
}
