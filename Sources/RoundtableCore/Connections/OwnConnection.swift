import GRDB
import GRDBSQLite

/// Distinguishes Roundtable's own connections from other connections by a SQL function that only they have. A list of addresses
/// would not work, because SQLite reuses the address of a closed connection.
enum OwnConnection {
    private static let name = "roundtable_own_connection"

    static func mark(_ db: Database) {
        sqlite3_create_function_v2(
            db.sqliteConnection,
            name,
            0,
            SQLITE_UTF8 | SQLITE_DETERMINISTIC,
            nil,
            { context, _, _ in sqlite3_result_int(context, 1) },
            nil,
            nil,
            nil
        )
    }

    /// Queries the list of functions, because the call of a missing function would appear in the program's error log.
    static func isMarked(_ raw: RawConnection) -> Bool {
        raw.integer("SELECT 1 FROM pragma_function_list WHERE name = '\(name)'") == 1
    }
}
