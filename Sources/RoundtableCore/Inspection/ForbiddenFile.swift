import Foundation
import GRDB
import RoundtableKernel

/// A file of a database that this process may not read, or not write. SQLite's errors name at most the database.
struct ForbiddenFile {
    private let database: String
    private let suffix: String
    private let status: FileStatus
    private let isReadable: Bool
    private let isOnReadOnlyFileSystem: Bool

    /// Finds the first of the database file, `-wal` and `-shm` that this process may not use; nil when it may use all that exist.
    ///
    /// - parameter writing: whether the files are to be written, too.
    init?(databasePath path: String, writing: Bool) {
        for suffix in ["", "-wal", "-shm"] where !System.mayUse(path + suffix, writing: writing) {
            guard let status = try? System.status(ofFileAt: path + suffix) else { continue }
            let readRefusal = System.refusal(ofReading: path + suffix)
            let writeRefusal = writing ? System.refusal(ofWriting: path + suffix) : nil
            if readRefusal == nil, writeRefusal == nil { continue }
            // Another process has removed it meanwhile, as the last one that closes the database does.
            if readRefusal == ENOENT || writeRefusal == ENOENT { continue }
            (database, self.suffix, self.status) = (path, suffix, status)
            isReadable = readRefusal == nil
            isOnReadOnlyFileSystem = isReadable && writeRefusal == EROFS
            return
        }
        return nil
    }

    /// Refuses a file of the database that this process may not write, without opening one. SQLite keeps the descriptor of a connection that
    /// is refused after it was opened, as long as other connections of the process hold locks.
    ///
    /// - throws: `SQLITE_READONLY`, or `SQLITE_CANTOPEN` for a file that may not be read either.
    static func refuse(databasePath path: String) throws {
        if let forbidden = ForbiddenFile(databasePath: path, writing: true) { throw forbidden.error }
    }

    /// The path of the database, what is denied, why, and what to do, without the last full stop: a statement may follow.
    var message: String {
        let file = suffix.isEmpty ? "the file" : database + suffix
        let denied = "\(file) cannot be \(isReadable ? "written" : "read") by this process (user \(geteuid()))"
        let cause = isOnReadOnlyFileSystem ? "" : "It has \(status.accessText). "
        return "\(database): permission denied: \(denied). \(cause)\(advice)"
    }

    private var advice: String {
        if isOnReadOnlyFileSystem { return SystemErrorAdvice.next(EROFS) }
        if suffix.isEmpty {
            return """
                Run as a user who may use it. To share it among users, give the file and its folder a common group (chgrp; chmod 660 for the \
                file, 2770 for the folder)
                """
        }
        return """
            While no process has the database open, give it the owner, group and mode of the database (chown, chmod). In a folder with the \
            set-group-ID bit (chmod 2770), new files get the folder's group
            """
    }

    /// The error that SQLite would report, with the message.
    var error: DatabaseError {
        DatabaseError(resultCode: isReadable ? .SQLITE_READONLY : .SQLITE_CANTOPEN, message: message)
    }
}
