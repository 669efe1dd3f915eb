import Foundation
import GRDB
import GRDBSQLite

extension DatabaseError {
    /// The same error of opening, with the path, and what to do, or who is in the way: SQLite's messages tell none of it.
    func naming(_ path: String) -> DatabaseError {
        let folder = (path as NSString).deletingLastPathComponent
        let text =
            switch extendedResultCode {
            case .SQLITE_NOTADB:
                "is not a SQLite database, or is encrypted"
            case .SQLITE_READONLY_ROLLBACK, .SQLITE_READONLY_RECOVERY:
                "a transaction was cut short: a process that may write must open the database once, to undo it"
            case .SQLITE_READONLY_CANTINIT, .SQLITE_READONLY_CANTLOCK, .SQLITE_READONLY_DIRECTORY:
                """
                its -wal and -shm files are missing, or not usable, and cannot be created in \(folder): open it once with \
                a process that may write there
                """
            case _ where resultCode == .SQLITE_READONLY:
                "cannot be written: \(message ?? "read-only")"
            case _ where resultCode == .SQLITE_CANTOPEN:
                "cannot be opened: is there the permission to read it, and to create files in \(folder)?"
            // Not one that has been named.
            case _
            where resultCode == .SQLITE_BUSY
                && message == String(cString: sqlite3_errstr(ResultCode.SQLITE_BUSY.rawValue)):
                "database is locked: \(LockHolder.find(databasePath: path, participant: nil).description())"
            default:
                message ?? "cannot be opened"
            }
        return DatabaseError(resultCode: extendedResultCode, message: "\(path): \(text)")
    }
}
