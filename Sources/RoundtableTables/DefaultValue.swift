import GRDB
import RoundtableCore

/// The default value of a column. SQLite stores it where no value is given, and REPLACE stores it in place of a NULL in a NOT NULL column.
struct DefaultValue: Equatable {
    /// Whether the value is the same for every row. If so, `sql` is the value as a column of this affinity stores it.
    let isConstant: Bool
    let sql: String

    /// - parameter text: the default as `PRAGMA table_xinfo` returns it: without the parentheses around an expression.
    init(_ text: String, in affinity: Affinity, _ db: Database) throws {
        let tokens = IndexDefinition.tokens(text)
        let words = tokens.filter { !IndexDefinition.isSpace($0) }
        let expression = tokens.joined()
        if Self.mayVary(words) {
            self.init(isConstant: false, sql: expression)
            return
        }
        if Self.staysAsItIs(words, in: affinity) {
            self.init(isConstant: true, sql: expression)
            return
        }
        let word = words.count == 1 ? Self.text(words[0]) : nil
        let literal = word ?? expression
        let value = Self.value(of: literal, in: affinity)
        let sql = "SELECT quote(\(value)), typeof(\(value)) = typeof(\(literal))"
        guard let row = try Row.fetchOne(db, sql: sql) else { preconditionFailure("no row of '\(sql)'") }
        // The text is kept where possible, because versions of SQLite write the digits of a number differently.
        self.init(isConstant: true, sql: row[1] ? literal : row[0])
    }

    private init(isConstant: Bool, sql: String) {
        self.isConstant = isConstant
        self.sql = sql
    }

    /// Whether the value may differ each time. An expression that contains a name is assumed to: the name of a function, of a collation
    /// that this program does not have, or of an operator that is a function.
    private static func mayVary(_ words: [Substring]) -> Bool {
        if words.count == 1 {
            return ["CURRENT_TIMESTAMP", "CURRENT_DATE", "CURRENT_TIME"].contains(words[0].uppercased())
        }
        return words.indices.contains { index in
            let isBlob = words[index].uppercased() == "X" && words[(index + 1)...].first?.unicodeScalars.first == "'"
            return isName(words[index]) && !isBlob && !constants.contains(words[index].uppercased())
        }
    }

    private static let constants = ["TRUE", "FALSE", "NULL"]

    private static func isName(_ word: Substring) -> Bool {
        guard let first = word.unicodeScalars.first else { return false }
        return !first.isASCII || first.properties.isAlphabetic || "\"`[_".unicodeScalars.contains(first)
    }

    /// Whether the column stores the literal unchanged, so that it need not be computed. Most defaults are such literals.
    private static func staysAsItIs(_ words: [Substring], in affinity: Affinity) -> Bool {
        guard words.count == 1, let first = words[0].unicodeScalars.first else { return false }
        if first == "'" { return affinity == .text || affinity == .blob }
        let isNumber = words[0].count < 16 && words[0].unicodeScalars.allSatisfy { ("0"..."9").contains($0) }
        return isNumber && affinity != .text && affinity != .real
    }

    /// Returns a name as a text literal, because SQLite treats a name used as a default as text.
    private static func text(_ word: Substring) -> String? {
        guard isName(word), !constants.contains(word.uppercased()) else { return nil }
        return IndexDefinition.content(word).sqlText
    }

    /// Returns an SQL expression for what a column of this affinity stores. No column is involved, because storing the value in one would
    /// be a write.
    private static func value(of literal: String, in affinity: Affinity) -> String {
        let value = "(\(literal))"
        // A comparison with a number gives a text that looks like a number the same affinity as the number.
        let number = "CASE WHEN CAST(\(value) AS NUMERIC) = \(value) THEN CAST(\(value) AS NUMERIC) ELSE \(value) END"
        switch affinity {
        case .blob: return value
        case .text:
            return "CASE WHEN typeof(\(value)) IN ('integer', 'real') THEN CAST(\(value) AS TEXT) ELSE \(value) END"
        case .real:
            return "CASE WHEN typeof(\(number)) = 'integer' THEN CAST(\(number) AS REAL) ELSE \(number) END"
        case .integer, .numeric:
            return """
                CASE WHEN typeof(\(number)) = 'real' AND CAST(\(number) AS INTEGER) = \(number)
                    THEN CAST(\(number) AS INTEGER) ELSE \(number) END
                """
        }
    }
}
