import Foundation
import GRDB
import RoundtableCore
import RoundtableTables

/// A row of `roundtable_extensions` (rule E1).
package struct StoredDerivedTable: Equatable {
    package enum State: String {
        case building
        case ready
        /// The base table is gone, or no longer fits the definition.
        case missing
    }

    package var name: String
    package var baseTable: String
    package var version: Int
    var fingerprint: String
    var configuration: String
    /// The primary key of the base table.
    var keyColumns: [String]
    /// A random number, which is new each time the derived table is created.
    var identity: String
    var generation: Int
    package var state: State
    /// The number of base table rows processed since building began, of about `total`.
    package var done: Int
    package var total: Int
    /// The schema that holds its tables.
    var schema = "main"

    static let format = 1

    static func exist(_ db: Database) throws -> Bool {
        if db.knowsTable(tableName) { return true }
        // Another process may have created it since this connection has read the schema.
        return try db.directTexts(tableQuery).map { !$0.isEmpty } ?? (Int.fetchOne(db, sql: tableQuery) != nil)
    }

    static let tableName = "roundtable_extensions"
    private static let tableQuery = "SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND name = '\(tableName)'"

    /// Returns the revision of the set, or 0 if there is none.
    ///
    /// - throws: ``DerivedTableError/newerFormat(path:format:)``.
    package static func revision(_ db: Database) throws -> Int {
        guard try exist(db) else { return 0 }
        try checkFormat(db)
        return try Int.fetchOne(db, sql: "SELECT revision FROM main.roundtable_extension_settings") ?? 0
    }

    private static func checkFormat(_ db: Database) throws {
        let statement = try db.cachedStatement(sql: "SELECT format FROM main.roundtable_extension_settings")
        let format = try Int.fetchOne(statement) ?? 0
        if format > Self.format { throw DerivedTableError.newerFormat(path: db.filePath, format: format) }
    }

    /// - throws: ``DerivedTableError/newerFormat(path:format:)``, `DatabaseError`.
    package static func fetchAll(_ db: Database) throws -> [StoredDerivedTable] {
        guard try exist(db) else { return [] }
        try checkFormat(db)
        return try Row.fetchAll(db, sql: "SELECT * FROM main.roundtable_extensions ORDER BY name").map(Self.init)
    }

    /// - throws: ``DerivedTableError/newerFormat(path:format:)``, `DatabaseError`.
    static func fetch(_ db: Database, _ name: String) throws -> StoredDerivedTable? {
        guard try exist(db) else { return nil }
        try checkFormat(db)
        let statement = try db.cachedStatement(sql: "SELECT * FROM main.roundtable_extensions WHERE name = ?")
        return try Row.fetchOne(statement, arguments: [name]).map(Self.init)
    }

    /// Reads a row of the table. The row is checked, because the file may contain anything.
    ///
    /// - throws: `SQLITE_CORRUPT`.
    init(_ row: Row) throws {
        func value<Value: DatabaseValueConvertible>(_ column: String) throws -> Value {
            let stored: DatabaseValue? = row[column]
            guard let value = stored.flatMap(Value.fromDatabaseValue) else {
                throw DatabaseError(
                    resultCode: .SQLITE_CORRUPT,
                    message: """
                        a row of roundtable_extensions has \(stored.map { "\($0)" } ?? "nothing") as '\(column)', and was not written by \
                        Roundtable. Restore the table from a backup, or drop it and open the database for writing.
                        """
                )
            }
            return value
        }
        name = try value("name")
        baseTable = try value("base")
        version = try value("version")
        fingerprint = try value("fingerprint")
        configuration = try value("configuration")
        let keys: String = try value("key_columns")
        keyColumns = (try? JSONDecoder().decode([String].self, from: Data(keys.utf8))) ?? []
        identity = try value("identity")
        generation = try value("generation")
        // An unknown state can only come from a later format, which is refused.
        state = State(rawValue: try value("state")) ?? .missing
        done = try value("done")
        total = try value("total")
    }

    init(_ described: DescribedDerivedTable, _ shape: TableShape) {
        name = described.name
        baseTable = described.definition.baseTable
        version = described.version
        fingerprint = described.fingerprint
        configuration = described.definition.configuration
        keyColumns = shape.key.map(\.name)
        identity = String(UInt64.random(in: .min ... .max), radix: 16)
        generation = Projection.generation
        state = .building
        (done, total) = (0, 0)
    }

    /// Stores the row. Must be called inside a write transaction.
    func store(_ db: Database) throws {
        try Self.remove(name, db)
        try db.execute(
            sql: """
                INSERT INTO main.roundtable_extensions
                    (name, base, version, fingerprint, configuration, key_columns, identity, generation, state, done, total)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                name, baseTable, version, fingerprint, configuration, try Self.text(keyColumns), identity, generation,
                state.rawValue, done, total,
            ]
        )
    }

    static func remove(_ name: String, _ db: Database) throws {
        try db.execute(sql: "DELETE FROM main.roundtable_extensions WHERE name = ?", arguments: [name])
    }

    static func text(_ list: [String]) throws -> String {
        String(decoding: try JSONEncoder().encode(list), as: UTF8.self)
    }

    func isOf(_ described: DescribedDerivedTable) -> Bool {
        version == described.version && fingerprint == described.fingerprint
    }

    /// Creates the tables if they do not exist. Must be called inside a write transaction.
    static func createTables(_ db: Database) throws {
        try db.execute(
            sql: """
                CREATE TABLE IF NOT EXISTS main.roundtable_extensions (
                    name TEXT PRIMARY KEY NOT NULL COLLATE NOCASE,
                    base TEXT NOT NULL,
                    version INTEGER NOT NULL,
                    fingerprint TEXT NOT NULL,
                    configuration TEXT NOT NULL,
                    key_columns TEXT NOT NULL,
                    identity TEXT NOT NULL,
                    generation INTEGER NOT NULL,
                    state TEXT NOT NULL,
                    done INTEGER NOT NULL,
                    total INTEGER NOT NULL
                );
                CREATE TABLE IF NOT EXISTS main.roundtable_extension_settings (
                    format INTEGER NOT NULL,
                    revision INTEGER NOT NULL
                );
                """
        )
    }

    static func store(revision: Int, _ db: Database) throws {
        try db.execute(sql: "DELETE FROM main.roundtable_extension_settings")
        try db.execute(
            sql: "INSERT INTO main.roundtable_extension_settings (format, revision) VALUES (?, ?)",
            arguments: [format, revision]
        )
    }
}
