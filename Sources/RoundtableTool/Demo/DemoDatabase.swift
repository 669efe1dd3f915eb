import Foundation
import GRDB
import Roundtable

/// The database of the demo: a journal that everyone writes to.
enum DemoDatabase {
    static let migration = "roundtable-demo-2"

    static var schema: Schema {
        var migrator = DatabaseMigrator()
        migrator.registerMigration(migration) { db in
            try db.create(table: "entry") { table in
                table.autoIncrementedPrimaryKey("id")
                table.column("author", .text).notNull()
                table.column("number", .integer).notNull()
                table.column("at", .datetime).notNull()
            }
            // What the interactive widget has logged.
            try db.create(table: "logged") { table in
                table.autoIncrementedPrimaryKey("id")
                table.column("run", .text).notNull()
                table.column("number", .integer).notNull()
            }
        }
        return Schema(migrator)
    }

    static let lastEntry = "SELECT MAX(id) FROM entry"

    struct Findings {
        var rows: Int
        var lastEntry: Int64
        var integrity: String
        /// What was logged for an interactive widget, in the order in which it was.
        var logged: [Int] = []
    }

    /// What is in the database after the demo; nil when there is none.
    ///
    /// - parameter run: whose logged entries are looked for.
    /// - parameter opened: is given the database before it is read, so that this can be interrupted.
    static func inspect(_ url: URL, run: UUID? = nil, _ opened: (SharedDatabase) throws -> Void) throws -> Findings? {
        let answer = try SharedDatabase.openReadOnly(at: url, schema: schema, as: "demo")
        guard case .available(let database) = answer else { return nil }
        defer { try? database.close() }
        try opened(database)
        return try database.read { db in
            Findings(
                rows: try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM entry") ?? 0,
                lastEntry: try Int64.fetchOne(db, sql: lastEntry) ?? 0,
                integrity: try String.fetchAll(db, sql: "PRAGMA integrity_check").joined(separator: "; "),
                logged: try Int.fetchAll(
                    db,
                    sql: "SELECT number FROM logged WHERE run = ? ORDER BY id",
                    arguments: [run?.uuidString]
                )
            )
        }
    }

    static func lastEntry(_ url: URL, _ opened: (SharedDatabase) throws -> Void) throws -> Int64 {
        let answer = try SharedDatabase.openReadOnly(at: url, schema: schema, as: "demo")
        guard case .available(let database) = answer else { return 0 }
        defer { try? database.close() }
        try opened(database)
        return try database.read { try Int64.fetchOne($0, sql: lastEntry) ?? 0 }
    }

    /// How many rows an earlier demo left.
    ///
    /// - throws: `ToolError` when the file is something else: the demo writes into no database but its own.
    static func rowsBefore(_ url: URL, _ opened: (SharedDatabase) throws -> Void) throws -> Int {
        do {
            // Tells of a missing folder, too.
            _ = try Onlooker(url)
        } catch SharedDatabaseError.notAFile(_, Onlooker.noSuchFile) {
            return 0
        }
        let status = try SharedDatabase.status(ofDatabaseAt: url)
        if let schema = status.schema, schema.tableCount == 0 { return 0 }
        guard status.schema?.appliedMigrations == [migration], let findings = try inspect(url, opened) else {
            throw ToolError("\(url.path): this is a database, and not the demo's. Give --at another path.")
        }
        return findings.rows
    }
}
