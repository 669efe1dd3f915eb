/// The names of the tables that Roundtable keeps in a database. Changes are reported without the tables of the history and of the outbox,
/// and with those of derived tables, so the names are known here.
package enum InternalTables {
    /// The prefix of all names of the history.
    package static let history = "roundtable_history"
    /// The prefix of all names of the outbox.
    package static let outbox = "roundtable_outbox"
    /// The prefix of all names of roles.
    package static let roles = "roundtable_role"
    /// The prefix of all names of derived tables.
    package static let derivedTables = "roundtable_ext"

    /// Whether changes of a table are not reported.
    package static func isUnreported(_ table: String) -> Bool { table.hasPrefix(history) || table.hasPrefix(outbox) }

    /// Whether a table is one of Roundtable's, or that of GRDB's migrations, and not the app's.
    package static func isInternal(_ table: String) -> Bool {
        table == "grdb_migrations" || isUnreported(table) || table.hasPrefix(roles) || table.hasPrefix(derivedTables)
    }

    /// Returns the name of the derived table that a table belongs to, or nil if the table belongs to all derived tables or to none.
    package static func derivedTableName(ofTable table: String) -> String? {
        let start = "\(derivedTables)_"
        guard table.hasPrefix(start) else { return nil }
        let rest = table.dropFirst(start.count)
        // Names of derived tables do not have two underscores.
        return String(rest.firstRange(of: "__").map { rest[..<$0.lowerBound] } ?? rest)
    }
}
