import Foundation
import GRDB
import Roundtable
import RoundtableToolSupport

/// The database of the demo: a journal that all writers write to.
enum DemoDatabase {
    static let migration = "roundtable-demo-2"

    static var schema: SharedSchema {
        var migrator = DatabaseMigrator()
        migrator.registerMigration(migration) { db in
            try db.create(table: "entry") { table in
                table.autoIncrementedPrimaryKey("id")
                table.column("author", .text).notNull()
                table.column("number", .integer).notNull()
                table.column("at", .datetime).notNull()
            }
            // This table has the entries that the interactive widget has logged.
            try db.create(table: "logged") { table in
                table.autoIncrementedPrimaryKey("id")
                table.column("run", .text).notNull()
                table.column("number", .integer).notNull()
            }
        }
        return SharedSchema(migrator)
    }

    static let lastEntry = "SELECT MAX(id) FROM entry"

    struct Findings {
        var rows: Int
        var lastEntry: Int64
        var integrity: String
        /// The numbers of the entries that were logged for an interactive widget, in the order of logging.
        var logged: [Int] = []
    }

    /// Inspects the database after the demo.
    ///
    /// - parameter run: the run whose logged entries are read.
    /// - parameter opened: called with the database before it is read, so that the read can be interrupted.
    /// - returns: nil when there is no database.
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

    /// The number of rows of earlier demos.
    ///
    /// - throws: `ToolError` when the file is another database, because the demo writes only to its own.
    static func rowsBefore(_ url: URL, _ opened: (SharedDatabase) throws -> Void) throws -> Int {
        do {
            // This also reports a missing folder.
            _ = try Onlooker(url)
        } catch SharedDatabaseError.notAFile(_, Onlooker.noSuchFile) {
            return 0
        }
        let status = try DatabaseStatus(ofDatabaseAt: url)
        if let schema = status.schema, schema.tableCount == 0 { return 0 }
        guard status.schema?.appliedMigrations == [migration], let findings = try inspect(url, opened) else {
            throw ToolError("\(url.path): this is a database, and not the demo's. Give --at another path.")
        }
        return findings.rows
    }
}
