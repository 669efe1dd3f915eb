/// A trigger on a table whose rows are followed, usually one that the user has created.
package struct OtherTrigger: Equatable {
    /// Whether it fires after the row is written, like the triggers that follow the row.
    package let isAfter: Bool
    /// Whether it may end the statement without undoing it, so that no further trigger fires.
    package let mayEndStatement: Bool

    /// - parameter sql: the text in the schema, without TEMP, IF NOT EXISTS and the name of the database.
    package init(_ sql: String) {
        let words = IndexDefinition.tokens(sql).map { $0.uppercased() }.filter { !IndexDefinition.isSpace($0) }
        // The first 3 tokens are CREATE, TRIGGER and the name. No space need follow the name.
        let time = words.dropFirst(3).first ?? ""
        isAfter = !["BEFORE", "INSERT", "UPDATE", "DELETE"].contains(time)
        mayEndStatement = words.contains("RAISE") && (words.contains("IGNORE") || words.contains("FAIL"))
    }
}
