import GRDBSQLite

/// SQL text, split into statements without compiling them, because a later statement may need what an earlier one creates.
struct SQLScript: Equatable {
    struct Statement: Equatable {
        let text: String
        /// The first words and other characters, in upper case.
        let words: [String]
    }

    let statements: [Statement]

    /// - parameter texts: texts that may each contain several statements.
    init(_ texts: [String]) {
        statements = texts.flatMap(Self.split).map { text in
            Statement(text: text, words: Self.words(of: text, limit: 8))
        }.filter { !$0.words.isEmpty }
    }

    /// Whether the tool must not run the statements in one transaction, because they begin or end transactions themselves, or SQLite
    /// refuses to run them in a transaction.
    var managesTransactions: Bool { statements.contains(where: \.managesTransactions) }

    /// Whether the script has a number of changed rows to report.
    var changesRows: Bool {
        statements.contains { ["INSERT", "UPDATE", "DELETE", "REPLACE", "WITH"].contains($0.words.first) }
    }

    /// Splits the text at the semicolons that end a statement. `sqlite3_complete` knows those of triggers. It reads a statement from its
    /// beginning, so it is not asked at semicolons in strings and comments, of which there may be very many.
    private static func split(_ text: String) -> [String] {
        var pieces: [String] = []
        var piece: [UInt8] = []
        var position = Position.code
        for byte in text.utf8 where byte != 0 {
            piece.append(byte)
            position.pass(byte)
            // In strings and comments, a semicolon does not lead to code.
            guard byte == UInt8(ascii: ";"), position == .code else { continue }
            let candidate = String(decoding: piece, as: UTF8.self)
            if sqlite3_complete(candidate) != 0 {
                pieces.append(candidate)
                piece = []
            }
        }
        if !piece.isEmpty { pieces.append(String(decoding: piece, as: UTF8.self)) }
        return pieces
    }

    /// Where in SQL text a byte is.
    private enum Position: Equatable {
        case code, hyphen, slash, line, block, star
        /// In a string or a name in quotes. A quote in it is written twice, which ends it and begins it again.
        case quotes(end: UInt8)

        mutating func pass(_ byte: UInt8) {
            let character = Character(Unicode.Scalar(byte))
            switch (self, character) {
            case (.hyphen, "-"): self = .line
            case (.slash, "*"): self = .block
            case (.code, _), (.hyphen, _), (.slash, _):
                switch character {
                case "'", "\"", "`": self = .quotes(end: byte)
                case "[": self = .quotes(end: UInt8(ascii: "]"))
                case "-": self = .hyphen
                case "/": self = .slash
                default: self = .code
                }
            case (.line, "\n"): self = .code
            case (.block, "*"), (.star, "*"): self = .star
            case (.star, "/"): self = .code
            case (.star, _): self = .block
            case (.quotes(byte), _): self = .code
            case (.line, _), (.block, _), (.quotes, _): break
            }
        }
    }

    private static func words(of text: String, limit: Int) -> [String] {
        var words: [String] = []
        var rest = Substring(text)
        while words.count < limit, let first = rest.first {
            if rest.hasPrefix("--") {
                rest = rest.drop { !$0.isNewline }
            } else if rest.hasPrefix("/*") {
                rest = rest.dropFirst(2)
                while !rest.isEmpty, !rest.hasPrefix("*/") { rest = rest.dropFirst() }
                rest = rest.dropFirst(2)
            } else if first.isWhitespace || first == ";" {
                rest = rest.dropFirst()
            } else if first.isLetter || first == "_" {
                let word = rest.prefix { $0.isLetter || $0.isNumber || $0 == "_" }
                words.append(word.uppercased())
                rest = rest.dropFirst(word.count)
            } else {
                words.append(String(first))
                rest = rest.dropFirst()
            }
        }
        return words
    }
}

extension SQLScript.Statement {
    /// Pragmas that do nothing, or fail, inside a transaction.
    private static let pragmasOutsideTransactions: Set<String> = [
        "FOREIGN_KEYS", "JOURNAL_MODE", "LOCKING_MODE", "SYNCHRONOUS", "TEMP_STORE", "WAL_CHECKPOINT",
    ]

    var managesTransactions: Bool {
        switch words.first {
        case "BEGIN", "COMMIT", "END", "VACUUM", "ATTACH", "DETACH": true
        case "ROLLBACK": !words.contains("TO")
        case "PRAGMA": pragma.map(Self.pragmasOutsideTransactions.contains) ?? false
        default: false
        }
    }

    /// Whether the statement writes nothing although `sqlite3_stmt_readonly` says that it does: `EXPLAIN INSERT …`, and a query of the
    /// journal mode.
    var onlyAsks: Bool {
        switch words.first {
        case "EXPLAIN": true
        default: asksJournalMode
        }
    }

    var asksJournalMode: Bool { pragma == "JOURNAL_MODE" && words.last == "JOURNAL_MODE" }

    /// Whether the first words of the statement say that it writes.
    var surelyWrites: Bool {
        !["SELECT", "VALUES", "WITH", "PRAGMA", "EXPLAIN", "COMMIT", "END", "ROLLBACK"].contains(words.first)
            && (words.first != "BEGIN" || words.contains("IMMEDIATE") || words.contains("EXCLUSIVE"))
    }

    /// The name of the pragma, without the schema before it.
    private var pragma: String? {
        guard words.first == "PRAGMA", words.count > 1 else { return nil }
        return words.count > 3 && words[2] == "." ? words[3] : words[1]
    }
}
