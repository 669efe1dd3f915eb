import Foundation
import GRDB
import RoundtableCore

extension Projection {
    /// Creates the tables, indexes and triggers. The tables must not exist; triggers that exist are kept. Must be called inside a
    /// transaction.
    func create(_ db: Database) throws {
        for sql in creations { try db.execute(sql: sql) }
        let isThere = "SELECT EXISTS (SELECT 1 FROM \(schema).sqlite_master WHERE type = 'trigger' AND name = ?)"
        for (name, sql) in triggers.sorted(by: { $0.key < $1.key }) {
            if try Bool.fetchOne(db, sql: isThere, arguments: [name]) == true { continue }
            // The schema is named, because the trigger would otherwise be temporary if a temporary table had the name of its table.
            let start = "CREATE TRIGGER "
            precondition(sql.hasPrefix(start + name.sqlName))
            try db.execute(sql: "\(start)\(schema).\(sql.dropFirst(start.count))")
        }
    }

    /// Drops all tables and triggers of a derived table that exist. Must be called inside a transaction.
    ///
    /// - parameter kept: the triggers to keep, by name. A trigger is kept only if it has this text.
    static func drop(_ name: String, in schema: String, _ db: Database, keeping kept: [String: String] = [:]) throws {
        let projection = DerivedTableNames.projection(name)
        let isOfIt = "(name = ? COLLATE NOCASE OR name LIKE ? ESCAPE '\\')"
        let pattern = "\(projection)__%".replacingOccurrences(of: "_", with: "\\_")
        let arguments: StatementArguments = [projection, pattern]
        let triggers = "SELECT name, sql FROM \(schema).sqlite_master WHERE type = 'trigger' AND \(isOfIt)"
        for row in try Row.fetchAll(db, sql: triggers, arguments: arguments) {
            let name: String = row["name"]
            if kept[name] == row["sql"] { continue }
            try db.execute(sql: "DROP TRIGGER IF EXISTS \(schema).\(name.sqlName)")
        }
        // Virtual tables are dropped first, because each drops its own shadow tables.
        let tables = """
            SELECT name FROM \(schema).sqlite_master WHERE type IN ('table', 'view') AND \(isOfIt)
            ORDER BY sql LIKE 'CREATE VIRTUAL%' DESC
            """
        for name in try String.fetchAll(db, sql: tables, arguments: arguments) {
            try db.execute(sql: "DROP TABLE IF EXISTS \(schema).\(name.sqlName)")
        }
    }
}
