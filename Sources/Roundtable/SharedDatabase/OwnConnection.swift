import GRDB
import GRDBSQLite

/// Tells Roundtable's own connections from those of others, by a function that only they have: a list of them would have to know when SQLite
/// gives the address of a closed one to another.
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

    /// Looks into the list of functions: a call of one that is not there would be in the program's error log.
    static func isMarked(_ raw: RawConnection) -> Bool {
        raw.integer("SELECT 1 FROM pragma_function_list WHERE name = '\(name)'") == 1
    }
}
