import GRDB
import GRDBSQLite

// Rule W9b: A connection that must write is refused when SQLite could open the database, its WAL or its wal-index for reading only, which
// SQLite does silently and never undoes. That is checked when the connection has first read, and where the database is being set up, after
// the switch to WAL. The error is *forbidden* when this user may not write the file, else `SQLITE_CANTOPEN`, and the next access opens
// another connection. So a lack of descriptors or memory ends no participant's ability to write.

/// When the system refuses to open a file for writing, SQLite opens it for reading only, whatever the reason. A passing reason, such as a
/// lack of file descriptors, would then make all writes fail until the connection is closed. So a connection that must write is refused
/// instead, and the next access opens another one (W9b).
extension Database {
    /// - throws: `SQLITE_READONLY` or `SQLITE_CANTOPEN` when SQLite has opened the database file for reading only.
    func checkFileIsWritable(_ path: String) throws {
        if sqlite3_db_readonly(sqliteConnection, "main") == 1 { throw DatabaseError.openedForReadingOnly(path, path) }
    }

    /// Checks the WAL and the wal-index of a connection in WAL mode that has read.
    ///
    /// - throws: `SQLITE_READONLY` or `SQLITE_CANTOPEN` when one of them is open for reading only.
    func checkWalFilesAreWritable(_ path: String) throws {
        try checkWalIndexIsWritable(path)
        try checkWalIsWritable(path)
    }

    /// Runs `body`. Replaces its `SQLITE_READONLY`, which names no file, when one of the files is open for reading only.
    func explainingReadOnly<T>(_ path: String, _ body: () throws -> T) throws -> T {
        do {
            return try body()
        } catch let error as DatabaseError where error.resultCode == .SQLITE_READONLY {
            try checkFileIsWritable(path)
            // SQLite would create a wal-index for a database that does not use it.
            let isAboutWAL = [.SQLITE_READONLY_CANTINIT, .SQLITE_READONLY_CANTLOCK, .SQLITE_READONLY_RECOVERY]
                .contains(error.extendedResultCode)
            if try isAboutWAL || isInWALMode() { try checkWalFilesAreWritable(path) }
            throw error
        }
    }

    /// Checks the WAL of a connection in WAL mode that has read. SQLite does not tell how it has opened the file, but a write of no bytes
    /// fails where the file is open for reading only, and does nothing else. That was seen on Linux, with SQLite 3.40.1, and not tried on
    /// Apple's systems. Where such a write succeeds, this finds nothing. A VFS that refuses each of them refuses it for the database file,
    /// too, which is open for writing: its answer says nothing.
    ///
    /// - throws: `SQLITE_READONLY` or `SQLITE_CANTOPEN` when the WAL is open for reading only.
    func checkWalIsWritable(_ path: String) throws {
        guard let file = walFile, !file.takesWriteOfNoBytes else { return }
        if let file = databaseFile, sqlite3_db_readonly(sqliteConnection, "main") == 0, !file.takesWriteOfNoBytes {
            return
        }
        throw DatabaseError.openedForReadingOnly(path, path + "-wal")
    }

    /// SQLite's file object of the database file.
    var databaseFile: UnsafeMutablePointer<sqlite3_file>? { file(SQLITE_FCNTL_FILE_POINTER) }

    /// SQLite's file object of the WAL; nil while the file is not open.
    var walFile: UnsafeMutablePointer<sqlite3_file>? { file(SQLITE_FCNTL_JOURNAL_POINTER) }

    private func file(_ request: CInt) -> UnsafeMutablePointer<sqlite3_file>? {
        var file: UnsafeMutablePointer<sqlite3_file>?
        let code = sqlite3_file_control(sqliteConnection, "main", request, &file)
        // A file that is not open yet has no methods.
        return code == SQLITE_OK && file?.pointee.pMethods != nil ? file : nil
    }

    /// Checks the wal-index of a connection in WAL mode. All connections of a process share it.
    ///
    /// - throws: `SQLITE_READONLY` or `SQLITE_CANTOPEN` when SQLite has opened the wal-index for reading only.
    func checkWalIndexIsWritable(_ path: String) throws {
        if WalIndex(self)?.isReadOnly == true { throw DatabaseError.openedForReadingOnly(path, path + "-shm") }
    }
}

extension UnsafeMutablePointer<sqlite3_file> {
    fileprivate var takesWriteOfNoBytes: Bool {
        guard let write = pointee.pMethods.pointee.xWrite else { return true }
        return write(self, "", 0, 0) == SQLITE_OK
    }
}

extension DatabaseError {
    fileprivate static func openedForReadingOnly(_ path: String, _ file: String) -> DatabaseError {
        if let forbidden = ForbiddenFile(databasePath: path, writing: true) { return forbidden.error }
        // All connections of a process use the wal-index that the first of them has opened. A participant that only reads keeps it.
        let shared =
            file.hasSuffix("-shm")
            ? "; if a read-only participant of this process has the database open, close that first, because it keeps the file"
            : ""
        return DatabaseError(
            resultCode: .SQLITE_CANTOPEN,
            message: """
                \(path): the system refused to open \(file) for writing, although its permissions allow it. Too few file descriptors or too \
                little memory: try again\(shared). If it stays so, something else forbids it: an append-only file (lsattr), a sandbox, or a \
                security policy such as SELinux
                """
        )
    }
}
