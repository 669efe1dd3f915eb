import GRDB
import GRDBSQLite

extension Database {
    /// Whether other databases are attached to this connection, besides its own and the temporary one.
    ///
    /// The query does not go through GRDB, because GRDB's observations would count it among the reads of a fetch. It is the pragma itself:
    /// where SQLite is interrupted while it makes the table `pragma_database_list`, it reports SQLITE_ERROR, and not SQLITE_INTERRUPT.
    package var hasAttachedDatabases: Bool {
        get throws {
            var statement: OpaquePointer?
            defer { sqlite3_finalize(statement) }
            guard sqlite3_prepare_v3(sqliteConnection, "PRAGMA database_list", -1, 0, &statement, nil) == SQLITE_OK
            else {
                throw DatabaseError(lastErrorOf: self)
            }
            while true {
                switch sqlite3_step(statement) {
                case SQLITE_ROW: if sqlite3_column_int(statement, 0) > 1 { return true }
                case SQLITE_DONE: return false
                default: throw DatabaseError(lastErrorOf: self)
                }
            }
        }
    }
}
