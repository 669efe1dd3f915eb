import GRDB
import GRDBSQLite

/// A pragma with an integer value. Its statement is compiled once, outside of GRDB's caches.
package final class ReusedPragma {
    private let sql: String
    private var statement: OpaquePointer?

    package init(_ sql: String) { self.sql = sql }
    deinit { forget() }

    package func value(_ db: Database) -> Int32? {
        if statement == nil {
            sqlite3_prepare_v3(db.sqliteConnection, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &statement, nil)
        }
        guard let statement else { return nil }
        defer { sqlite3_reset(statement) }
        return sqlite3_step(statement) == SQLITE_ROW ? sqlite3_column_int(statement, 0) : nil
    }

    package func forget() {
        sqlite3_finalize(statement)
        statement = nil
    }
}
