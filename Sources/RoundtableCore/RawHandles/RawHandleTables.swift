import GRDB
import GRDBSQLite

// Rule U6: The tables are those that the owner names, and those that triggers and foreign keys of theirs write, as SQLite's authorizer
// reports on a connection of Roundtable's own for the schema of the commit, with foreign keys on: before the turn where they are named with
// it, and after its commits otherwise. They are *unknown* if none are named, the schema is another than when the turn began, or they cannot
// be determined (a function that the process does not have, a virtual table).

/// Finds all tables that a write to some tables may change. These include the tables that triggers and foreign keys write, which the owner
/// of a handle need not know (rule U6). Confined to the thread that has passed the turnstile.
final class RawHandleTables {
    private struct Key: Hashable {
        let tables: Set<String>
        let schemaVersion: Int64
    }

    private let opening: ConnectionOpening
    private let configuration: Configuration
    /// The written tables by key; a nil value stands for any table.
    private var known: [Key: [String]?] = [:]

    private var last: (tables: Set<String>, written: [String]?)?

    /// The largest size of `known`, so that a program that generates table names does not fill the memory.
    private static let maximumCount = 100

    /// - parameter configuration: the configuration of a reading connection.
    init(_ opening: ConnectionOpening, configuration: Configuration) {
        self.opening = opening
        self.configuration = configuration
    }

    /// The result of the last lookup, if it was for the same tables. The next commit very likely writes the same tables.
    func lastWritten(through tables: Set<String>) -> [String]? { last?.tables == tables ? last?.written : nil }

    /// - parameter schemaVersion: the schema version of the commit.
    /// - returns: nil when any table may be written.
    func written(through tables: Set<String>, schemaVersion: Int64) -> [String]? {
        let written = lookUp(tables, schemaVersion)
        last = (tables, written)
        return written
    }

    private func lookUp(_ tables: Set<String>, _ schemaVersion: Int64) -> [String]? {
        if tables.isEmpty { return nil }
        let key = Key(tables: tables, schemaVersion: schemaVersion)
        if let known = known[key] { return known }
        if known.count >= Self.maximumCount { known = [:] }
        // A failure is not stored, because the next lookup may succeed, for example once a key is available again.
        guard let found = try? look(key) else { return nil }
        known[key] = .some(found)
        return found
    }

    private struct SchemaHasChanged: Error {}

    private func look(_ key: Key) throws -> [String]? {
        // The connection is closed after the lookup, so that no connection needs to be released when the database is suspended.
        let queue = try opening.queue(configuration)
        defer { try? queue.close() }
        return try queue.inDatabase { db in
            // The owner's connection may enforce foreign keys, whatever the configuration of this connection says.
            try db.execute(sql: "PRAGMA foreign_keys = ON")
            guard try Int64.fetchOne(db, sql: "PRAGMA main.schema_version") == key.schemaVersion else {
                throw SchemaHasChanged()
            }
            var written: Set<String> = []
            for table in key.tables.sorted() {
                let sql = "SELECT sql LIKE 'CREATE VIRTUAL%' FROM main.sqlite_master WHERE name = ? COLLATE NOCASE"
                guard let isVirtual = try Bool.fetchOne(db, sql: sql + " AND type = 'table'", arguments: [table]),
                    !isVirtual
                else { return nil }
                let columns = try Row.fetchAll(db, sql: "SELECT name FROM pragma_table_info(?)", arguments: [table])
                let assignments = columns.map { (row: Row) -> String in
                    let column = (row[0] as String).sqlName
                    return "\(column) = \(column)"
                }
                let name = "main." + table.sqlName
                for statement in [
                    "INSERT INTO \(name) DEFAULT VALUES", "DELETE FROM \(name)",
                    "UPDATE \(name) SET \(assignments.joined(separator: ", "))",
                ] {
                    guard let tables = Self.tables(writtenBy: statement, db) else { return nil }
                    written.formUnion(tables)
                }
            }
            // The authorizer reports the schema table when a virtual table is connected. Triggers do not change the schema.
            return written.subtracting(["sqlite_master", "sqlite_schema"]).sorted()
        }
    }

    /// The tables that a statement writes, as reported by SQLite's authorizer. The statement is compiled and not run. This replaces GRDB's
    /// authorizer on the connection.
    private static func tables(writtenBy sql: String, _ db: Database) -> Set<String>? {
        var written: Set<String> = []
        return withUnsafeMutablePointer(to: &written) { written in
            sqlite3_set_authorizer(
                db.sqliteConnection,
                { context, action, table, _, _, _ in
                    if [SQLITE_INSERT, SQLITE_UPDATE, SQLITE_DELETE].contains(action), let table, let context {
                        context.assumingMemoryBound(to: Set<String>.self).pointee.insert(String(cString: table))
                    }
                    return SQLITE_OK
                },
                written
            )
            defer { sqlite3_set_authorizer(db.sqliteConnection, nil, nil) }
            var statement: OpaquePointer?
            let code = sqlite3_prepare_v2(db.sqliteConnection, sql, -1, &statement, nil)
            sqlite3_finalize(statement)
            return code == SQLITE_OK ? written.pointee : nil
        }
    }
}
