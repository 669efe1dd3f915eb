import GRDB
import GRDBSQLite

extension Database {
    /// Whether this connection has other databases than its own and the temporary one.
    ///
    /// Asked without GRDB, whose observations would take it for something that a fetch reads.
    var hasAttachedDatabases: Bool {
        get throws {
            let sql = "SELECT 1 FROM pragma_database_list WHERE seq > 1"
            var statement: OpaquePointer?
            defer { sqlite3_finalize(statement) }
            guard sqlite3_prepare_v3(sqliteConnection, sql, -1, 0, &statement, nil) == SQLITE_OK else {
                throw DatabaseError(lastErrorOf: self)
            }
            switch sqlite3_step(statement) {
            case SQLITE_ROW: return true
            case SQLITE_DONE: return false
            default: throw DatabaseError(lastErrorOf: self)
            }
        }
    }
}
