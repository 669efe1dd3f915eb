import Foundation
import GRDB

/// The database that every side works on.
enum Fixture {
    /// A few migrations, as an application has after its first year.
    static let migrator: DatabaseMigrator = {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("create entry") { db in
            try db.create(table: "entry") { table in
                table.column("id", .integer).primaryKey()
                table.column("author", .integer).notNull()
                table.column("text", .text).notNull()
            }
        }
        migrator.registerMigration("create label") { db in
            try db.create(table: "label") { table in
                table.column("id", .integer).primaryKey()
                table.column("name", .text).notNull().unique()
            }
        }
        migrator.registerMigration("label entries") { db in
            try db.create(table: "entryLabel") { table in
                table.belongsTo("entry").notNull()
                table.belongsTo("label").notNull()
                table.primaryKey(["entryId", "labelId"])
            }
        }
        return migrator
    }()

    /// Makes a database in WAL mode, with `rows` rows of author 0, checkpointed and closed.
    static func create(in folder: URL, name: String, rows: Int = 0) throws -> String {
        let path = folder.appendingPathComponent("\(name).sqlite").path
        var configuration = Configuration()
        configuration.journalMode = .wal
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        try migrator.migrate(queue)
        try queue.write { db in
            for _ in 0..<rows { try db.execute(sql: Statements.insert, arguments: [0, Statements.text]) }
        }
        try queue.close()
        return path
    }

    /// Adds a table with so many rows of some hundred bytes.
    static func createRecords(_ count: Int, in path: String) throws {
        let queue = try DatabaseQueue(path: path)
        try queue.write { db in
            try db.create(table: "record") { table in
                table.column("id", .integer).primaryKey()
                table.column("updates", .integer).notNull().defaults(to: 0)
                table.column("text", .text).notNull()
            }
            try db.execute(
                sql: """
                    WITH RECURSIVE number(id) AS (VALUES (1) UNION ALL SELECT id + 1 FROM number WHERE id < ?)
                    INSERT INTO record (id, text) SELECT id, hex(randomblob(150)) FROM number
                    """,
                arguments: [count]
            )
        }
        try queue.close()
    }

    /// How often a record was updated, by anybody.
    static func updateCount(_ path: String) throws -> Int {
        let queue = try DatabaseQueue(path: path)
        let count = try queue.read { try Int.fetchOne($0, sql: "SELECT SUM(updates) FROM record") }
        try queue.close()
        return count ?? 0
    }

    /// How often another author inserted a row than the one before: how often the right to write changed hands.
    static func handovers(_ path: String) throws -> Int {
        let queue = try DatabaseQueue(path: path)
        let sql = """
            SELECT SUM(author <> before)
            FROM (SELECT author, LAG(author) OVER (ORDER BY id) AS before FROM entry)
            """
        let count = try queue.read { try Int.fetchOne($0, sql: sql) }
        try queue.close()
        return count ?? 0
    }

    /// How many rows each author has inserted.
    static func rowCounts(_ path: String) throws -> [Int: Int] {
        let queue = try DatabaseQueue(path: path)
        let rows = try queue.read { db in
            try Row.fetchAll(db, sql: "SELECT author, COUNT(*) FROM entry GROUP BY author")
        }
        try queue.close()
        return Dictionary(uniqueKeysWithValues: rows.map { ($0[0], $0[1]) })
    }
}
