import GRDB
import GRDBSQLite
import RoundtableCore

extension Database {
    /// Whether other databases are attached to this connection, besides its own and the temporary one.
    ///
    /// The query does not go through GRDB, because GRDB's observations would count it among the reads of a fetch.
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
