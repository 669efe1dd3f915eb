import Foundation
import GRDB
import GRDBSQLite
import RoundtableKernel

extension DatabaseError {
    /// This error of an opening, with the path, and with advice or the holder of the lock. SQLite's messages contain none of this.
    func naming(_ path: String) -> DatabaseError {
        if isNamed(path) { return self }
        switch resultCode {
        case .SQLITE_BUSY: return namingLock(on: path, waited: nil).prefixed(by: path)
        case .SQLITE_FULL, .SQLITE_IOERR, .SQLITE_PROTOCOL:
            let named = namingFile(path)
            return named.isNamed(path) ? named : prefixed(by: path)
        default: break
        }
        let forbidden = namingForbiddenFile(path)
        if forbidden.isNamed(path) { return forbidden }
        let folder = (path as NSString).deletingLastPathComponent
        let text =
            switch extendedResultCode {
            case .SQLITE_NOTADB:
                "is not a SQLite database, or is encrypted: check the path ('head -c 16' shows 'SQLite format 3' for a database)"
            case .SQLITE_READONLY_ROLLBACK, .SQLITE_READONLY_RECOVERY:
                """
                it must be recovered after a crash, which this process may not do: open the database once with a process that may write it
                """
            case .SQLITE_READONLY_CANTINIT, .SQLITE_READONLY_CANTLOCK, .SQLITE_READONLY_DIRECTORY:
                """
                its -wal and -shm files are missing, or not usable, and cannot be created in \(folder): open it once with \
                a process that may write there; if no process writes it, read it with UnsharedDatabase and a configuration that is readonly
                """
            case _ where resultCode == .SQLITE_CORRUPT:
                """
                \(message ?? plainMessage): the file is damaged: 'roundtable doctor --check' says more. To use a backup, run \
                'roundtable replace --other-migrations'; if that fails, too, first run 'roundtable quarantine', and let a program create the \
                database again
                """
            case _ where resultCode == .SQLITE_READONLY:
                "cannot be written: \(message ?? "read-only")"
            case _ where resultCode == .SQLITE_CANTOPEN:
                DatabaseFile.tooLong(path)
                    ?? "cannot be opened: is there the permission to read it, and to create files in \(folder)?"
            default:
                message ?? "cannot be opened"
            }
        return DatabaseError(resultCode: extendedResultCode, message: "\(path): \(text)")
    }

    /// This error of an access, with the path and advice, if it reports a full disk, a failing disk, a file that may not be read, or a
    /// lock that blocks a read. Other errors are returned unchanged, because their statement explains enough.
    package func namingFile(_ path: String) -> DatabaseError {
        guard hasPlainMessage else { return self }
        switch resultCode {
        case .SQLITE_BUSY: return namingLock(on: path, waited: nil).prefixed(by: path)
        case .SQLITE_PROTOCOL:
            let holder = LockHolder.find(databasePath: path, seat: nil)
            return saying(
                "\(path): \(plainMessage): the wal-index (-shm) has to be recovered, and for 10 s a lock did not allow it: \(holder.description())"
            )
        case .SQLITE_CANTOPEN:
            let forbidden = namingForbiddenFile(path)
            return forbidden.hasPlainMessage ? namingTemporaryFolder(path) : forbidden
        case _ where extendedResultCode == .SQLITE_IOERR_GETTEMPPATH: return namingTemporaryFolder(path)
        case _ where isNoRoom:
            return saying("\(path): \(plainMessage): \(TemporaryFileFolder.advice(databasePath: path))")
        case .SQLITE_IOERR:
            return saying(
                """
                \(path): \(plainMessage) (\(extendedResultCode.rawValue)): the system could not read or write it: check its log, and keep a \
                backup ready
                """
            )
        default: return self
        }
    }

    /// This error with advice, if SQLite finds no folder for temporary files.
    private func namingTemporaryFolder(_ path: String) -> DatabaseError {
        if TemporaryFileFolder.path != nil { return self }
        return saying(
            """
            \(path): \(plainMessage): this statement needs a temporary file, and there is no folder for it that this process (user \
            \(geteuid())) may write. Create \(TemporaryFileFolder.usual), or name one in the environment variable SQLITE_TMPDIR
            """
        )
    }

    /// This error of a statement in a migration, with the path and the migration's identifier. Errors with another cause than the migration
    /// are returned unchanged.
    func naming(migration: String, on path: String) -> DatabaseError {
        switch resultCode {
        case .SQLITE_ERROR, .SQLITE_CONSTRAINT, .SQLITE_MISMATCH, .SQLITE_TOOBIG, .SQLITE_RANGE, .SQLITE_MISUSE,
            .SQLITE_AUTH:
            saying("\(path): the migration '\(migration)' failed and was rolled back: \(message ?? plainMessage)")
        default: self
        }
    }

    /// This error of opening or writing, with the file that this process may not use and advice, if that is the cause. The error of a
    /// statement that writes on a read-only connection has another cause.
    func namingForbiddenFile(_ path: String) -> DatabaseError {
        guard hasPlainMessage else { return self }
        switch extendedResultCode {
        case .SQLITE_READONLY:
            return ForbiddenFile(databasePath: path, writing: true).map { saying($0.message) } ?? self
        case _ where resultCode == .SQLITE_CANTOPEN:
            return ForbiddenFile(databasePath: path, writing: false).map { saying($0.message) } ?? self
        default: return self
        }
    }

    /// Adds the holder of the lock to SQLite's message. A more specific message stays.
    ///
    /// - parameter waited: how long the lock was waited for; nil when it is not known.
    func namingLock(on path: String, waited: Nanoseconds?) -> DatabaseError {
        guard hasPlainMessage else { return self }
        if extendedResultCode == .SQLITE_BUSY_SNAPSHOT { return namingStaleSnapshot }
        let holder = LockHolder.find(databasePath: path, seat: nil)
        return saying("database is locked: \(holder.description(waited: waited))")
    }

    /// This error of a transaction that has read, and cannot begin to write, with advice.
    var namingStaleSnapshot: DatabaseError {
        guard extendedResultCode == .SQLITE_BUSY_SNAPSHOT, hasPlainMessage else { return self }
        return saying(
            """
            database is locked: another connection has committed since this transaction first read, so it cannot write any more, and \
            waiting does not help. Roll it back and repeat it, and begin transactions that read before they write with BEGIN IMMEDIATE
            """
        )
    }

    /// This error of a commit, if the disk is full or fails, and other databases are attached.
    func namingAttached(_ db: Database) -> DatabaseError {
        guard isNoRoom || resultCode == .SQLITE_IOERR, db.hasAttachedDatabases else { return self }
        return saying(
            """
            \(plainMessage), on the disk of \(db.filePath) or of a database that is attached to it. If this transaction has written several of \
            them, it may be committed in one and not in another: look at them before you repeat it
            """
        )
    }

    /// Whether the disk or the user's quota is full. The `-shm` file needs some space, too:
    /// <https://www.sqlite.org/rescode.html#ioerr_shmsize>.
    package var isNoRoom: Bool { resultCode == .SQLITE_FULL || extendedResultCode == .SQLITE_IOERR_SHMSIZE }

    /// SQLite's own message for the result code.
    package var plainMessage: String { String(cString: sqlite3_errstr(resultCode.rawValue)) }

    /// Whether nothing has been added to SQLite's message.
    var hasPlainMessage: Bool { message == nil || message == plainMessage }

    private func isNamed(_ path: String) -> Bool { message?.hasPrefix("\(path): ") == true }

    private func prefixed(by path: String) -> DatabaseError { saying("\(path): \(message ?? plainMessage)") }

    private func saying(_ message: String) -> DatabaseError {
        DatabaseError(resultCode: extendedResultCode, message: message, sql: sql, arguments: arguments)
    }
}
