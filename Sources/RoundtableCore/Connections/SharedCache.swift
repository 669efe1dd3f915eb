import Foundation
import GRDB
import GRDBSQLite

/// SQLite's [shared-cache mode](https://www.sqlite.org/sharedcache.html). Connections in this mode share one file object, to
/// which SQLite grants a lock of the wal-index that it already holds. A check whether the write lock is free would then release
/// the lock in the middle of another connection's transaction, and committed rows would be lost (rule G5).
enum SharedCache {
    /// Whether the main database of a connection is opened in this mode, even if no other connection shares the cache yet.
    ///
    /// SQLite has no function for this. But only in this mode it compiles table locks into statements, and `EXPLAIN` shows them.
    static func isUsed(by connection: OpaquePointer) -> Bool {
        var statement: OpaquePointer?
        let sql = "EXPLAIN SELECT 1 FROM main.sqlite_master"
        guard sqlite3_prepare_v2(connection, sql, -1, &statement, nil) == SQLITE_OK else {
            return hasCompany(connection)
        }
        defer { sqlite3_finalize(statement) }
        while sqlite3_step(statement) == SQLITE_ROW {
            if let operation = sqlite3_column_text(statement, 1), strcmp(operation, "TableLock") == 0 { return true }
        }
        return hasCompany(connection)
    }

    /// Whether the connection shares its cache now. The connection must have read before.
    private static func hasCompany(_ connection: OpaquePointer) -> Bool {
        func used(_ kind: CInt) -> CInt {
            var (current, highest): (CInt, CInt) = (0, 0)
            sqlite3_db_status(connection, kind, &current, &highest, 0)
            return current
        }
        return used(SQLITE_DBSTATUS_CACHE_USED) != used(SQLITE_DBSTATUS_CACHE_USED_SHARED)
    }

    /// - throws: `SQLITE_MISUSE` when a connection of ours was opened in this mode.
    static func refuse(_ db: Database, path: String) throws {
        guard let connection = db.sqliteConnection, isUsed(by: connection) else { return }
        throw DatabaseError(
            resultCode: .SQLITE_MISUSE,
            message: """
                \(path): SQLite's shared-cache mode is on in this process, where connections share their locks, and commits would be lost. Do not call \
                sqlite3_enable_shared_cache(1) before the database is opened: use cache=shared in the URI of \
                another database for the connections that need it.
                """
        )
    }
}
