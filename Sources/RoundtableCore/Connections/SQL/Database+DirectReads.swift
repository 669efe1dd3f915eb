import GRDB
import GRDBSQLite

/// Queries that run once, while a database is opened. GRDB spends several times as long on such a query as SQLite does, because it records
/// what the statement reads and writes.
extension Database {
    /// The first column of a query's rows.
    ///
    /// - returns: nil when the query fails. GRDB's functions then report the reason.
    /// - throws: `SQLITE_PROTOCOL`.
    package func directTexts(_ sql: String) throws -> [String]? {
        var statement: OpaquePointer?
        guard sqlite3_prepare_v2(sqliteConnection, sql, -1, &statement, nil) == SQLITE_OK else { return nil }
        defer { sqlite3_finalize(statement) }
        var texts: [String] = []
        while true {
            switch sqlite3_step(statement) {
            case SQLITE_ROW: texts.append(sqlite3_column_text(statement, 0).map { String(cString: $0) } ?? "")
            case SQLITE_DONE: return texts
            default:
                try throwIfLockedOut()
                return nil
            }
        }
    }

    /// Call it when a read has failed and there is another way to read. SQLite tries for 10 s to begin a read whose locks it cannot have, and
    /// the other way would last as long.
    ///
    /// - throws: `SQLITE_PROTOCOL`, if that is the error of the read.
    func throwIfLockedOut() throws {
        if sqlite3_errcode(sqliteConnection) == SQLITE_PROTOCOL { throw DatabaseError(lastErrorOf: self) }
    }

    /// A statement that lives as long as the connection, outside of GRDB's caches. The caller finalizes it.
    func prepareRaw(_ sql: String) throws -> OpaquePointer? {
        var statement: OpaquePointer?
        let flags = UInt32(SQLITE_PREPARE_PERSISTENT)
        guard sqlite3_prepare_v3(sqliteConnection, sql, -1, flags, &statement, nil) == SQLITE_OK else {
            throw DatabaseError(lastErrorOf: self)
        }
        return statement
    }

    /// Whether the schema that this connection has read last names a table. The table may have been dropped or created since.
    package func knowsTable(_ name: String) -> Bool {
        sqlite3_table_column_metadata(sqliteConnection, "main", name, nil, nil, nil, nil, nil, nil) == SQLITE_OK
    }

    /// Sets a pragma.
    func set(_ pragma: String, _ value: some CustomStringConvertible) throws {
        let code = sqlite3_exec(sqliteConnection, "PRAGMA \(pragma) = \(value)", nil, nil, nil)
        guard code == SQLITE_OK else { throw DatabaseError(lastErrorOf: self) }
    }

    /// - throws: what SQLite throws, if it cannot read the journal mode.
    func isInWALMode() throws -> Bool {
        let sql = "PRAGMA main.journal_mode"
        return try (directTexts(sql)?.first ?? String.fetchOne(self, sql: sql)) == "wal"
    }
}
