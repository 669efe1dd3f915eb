/// A trigger that somebody else has put on a recorded table.
struct OtherTrigger: Equatable {
    /// Fires when the row is written, as those that record do.
    let isAfter: Bool
    /// May end the statement without undoing it, so that no trigger fires any more.
    let mayEndStatement: Bool

    /// - parameter sql: as the schema has it, without TEMP, IF NOT EXISTS and the name of the database.
    init(_ sql: String) {
        let tokens = IndexDefinition.tokens(sql)
        let words = tokens.map { $0.uppercased() }
        let isSpace = { (token: Substring) in token.allSatisfy(\.isWhitespace) }
        // CREATE TRIGGER and its name, which may be several tokens, but has no spaces between them.
        let parts = tokens.split(whereSeparator: isSpace)
        let time = parts.dropFirst(3).first?.first?.uppercased() ?? ""
        isAfter = !["BEFORE", "INSERT", "UPDATE", "DELETE"].contains(time)
        mayEndStatement = words.contains("RAISE") && (words.contains("IGNORE") || words.contains("FAIL"))
    }
}
