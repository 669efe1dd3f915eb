import GRDB
import GRDBSQLite

/// When the system refuses to open a file for writing, SQLite opens it for reading only, whatever the reason. A passing reason, such as a
/// lack of file descriptors, would then make all writes fail until the connection is closed. So a connection that must write is refused
/// instead, and the next access opens another one.
extension Database {
    /// - throws: `SQLITE_READONLY` or `SQLITE_CANTOPEN` when SQLite has opened the database file for reading only.
    func checkFileIsWritable(_ path: String) throws {
        if sqlite3_db_readonly(sqliteConnection, "main") == 1 { throw DatabaseError.openedForReadingOnly(path, path) }
    }

    /// Checks the wal-index of a connection in WAL mode. All connections of a process share it.
    ///
    /// - throws: `SQLITE_READONLY` or `SQLITE_CANTOPEN` when SQLite has opened the wal-index for reading only.
    func checkWalIndexIsWritable(_ path: String) throws {
        if WalIndex(self)?.isReadOnly == true { throw DatabaseError.openedForReadingOnly(path, path + "-shm") }
    }
}

extension DatabaseError {
    fileprivate static func openedForReadingOnly(_ path: String, _ file: String) -> DatabaseError {
        if let forbidden = ForbiddenFile(databasePath: path, writing: true) { return forbidden.error }
        return DatabaseError(
            resultCode: .SQLITE_CANTOPEN,
            message: """
                \(path): the system refused to open \(file) for writing, although this process has the permission: it may have too few file \
                descriptors or too little memory. Try again
                """
        )
    }
}
