/// A trigger that somebody else has put on a table whose rows are followed.
struct OtherTrigger: Equatable {
    /// Fires when the row is written, as those that follow it do.
    let isAfter: Bool
    /// May end the statement without undoing it, so that no trigger fires any more.
    let mayEndStatement: Bool

    /// - parameter sql: as the schema has it, without TEMP, IF NOT EXISTS and the name of the database.
    init(_ sql: String) {
        let words = IndexDefinition.tokens(sql).map { $0.uppercased() }.filter { !IndexDefinition.isSpace($0) }
        // CREATE TRIGGER, and one token for the name, which may have no space behind it.
        let time = words.dropFirst(3).first ?? ""
        isAfter = !["BEFORE", "INSERT", "UPDATE", "DELETE"].contains(time)
        mayEndStatement = words.contains("RAISE") && (words.contains("IGNORE") || words.contains("FAIL"))
    }
}
