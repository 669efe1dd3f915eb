import GRDB
import GRDBSQLite
import RoundtableCore
import Synchronization

/// Checks that stored derived tables follow their base tables (rule E8). A program may have recreated a base table, which drops the triggers,
/// and no program that declares the derived table has written since. The check runs once for each connection and schema version.
enum DerivedTableFollowing {
    /// - throws: ``DerivedTableError/notFollowing(path:name:table:)``, ``DerivedTableError/baseTableMissing(path:name:table:)``.
    static func check(_ stored: StoredDerivedTable, _ db: Database) throws {
        // The result of a write transaction is not kept, because its schema version may later belong to a schema with other contents.
        let isWriting = sqlite3_txn_state(db.sqliteConnection, "main") == SQLITE_TXN_WRITE
        let version =
            isWriting ? nil : try Int64.fetchOne(db.cachedStatement(sql: "PRAGMA main.schema_version"))
        if let version, looks.withLock({ $0.contains(stored.identity, at: version, on: db) }) { return }
        let keys = try String.fetchAll(
            db,
            sql: "SELECT name FROM pragma_table_info(?, 'main') WHERE pk > 0 ORDER BY pk",
            arguments: [stored.baseTable]
        )
        if keys.isEmpty {
            throw DerivedTableError.baseTableMissing(path: db.filePath, name: stored.name, table: stored.baseTable)
        }
        guard keys == stored.keyColumns, try hasTriggers(stored, db) else {
            throw DerivedTableError.notFollowing(path: db.filePath, name: stored.name, table: stored.baseTable)
        }
        if let version { looks.withLock { $0.add(stored.identity, at: version, on: db) } }
    }

    /// Whether the base table has all triggers without which changes to it are missed.
    static func hasTriggers(_ stored: StoredDerivedTable, _ db: Database) throws -> Bool {
        let names = Projection.indispensableTriggers.map { DerivedTableNames.part(stored.name, $0).lowercased() }
        let marks = names.map { _ in "?" }.joined(separator: ", ")
        let count = try Int.fetchOne(
            db,
            sql: """
                SELECT count(*) FROM main.sqlite_master
                WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE AND lower(name) IN (\(marks))
                """,
            arguments: [stored.baseTable] + StatementArguments(names)
        )
        return count == names.count
    }

    private static let looks = Mutex(Looks())

    private struct Looks {
        private struct Look {
            let connection: Connection
            var version: Int64
            /// The identities of the derived tables that follow their base tables.
            var identities: Set<String>
        }
        private var known: [ObjectIdentifier: Look] = [:]

        func contains(_ identity: String, at version: Int64, on db: Database) -> Bool {
            guard let look = known[ObjectIdentifier(db)], look.connection.database === db else { return false }
            return look.version == version && look.identities.contains(identity)
        }

        mutating func add(_ identity: String, at version: Int64, on db: Database) {
            let id = ObjectIdentifier(db)
            if known[id]?.connection.database === db, known[id]?.version == version {
                known[id]?.identities.insert(identity)
                return
            }
            known = known.filter { $0.value.connection.database != nil }
            known[id] = Look(connection: Connection(database: db), version: version, identities: [identity])
        }
    }

    // @unchecked: the reference is only tested for nil, and compared by identity.
    private struct Connection: @unchecked Sendable {
        weak var database: Database?
    }
}
