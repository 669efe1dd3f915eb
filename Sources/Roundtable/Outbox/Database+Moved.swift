import GRDB
import GRDBSQLite
import RoundtableKernel

extension Database {
    /// Which file this is, that lies where it lay when it was opened. Opens nothing (rule G5).
    ///
    /// - throws: ``OutboxError/databaseReplaced(path:)``, `SystemError`.
    func identityOfUnmovedFile() throws -> FileIdentity? {
        // First: what is found here is this file if it has not moved by then.
        let identity = try System.identity(ofFileAt: filePath)
        var hasMoved: Int32 = 0
        let code = sqlite3_file_control(sqliteConnection, "main", SQLITE_FCNTL_HAS_MOVED, &hasMoved)
        guard code == SQLITE_OK, hasMoved == 0 else { throw OutboxError.databaseReplaced(path: filePath) }
        return identity
    }
}
