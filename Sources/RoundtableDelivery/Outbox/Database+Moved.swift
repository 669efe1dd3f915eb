import GRDB
import GRDBSQLite
import RoundtableCore
import RoundtableFiles
import RoundtableKernel

extension Database {
    /// The identity of the database file, if it still lies where it was opened. This opens no file (rule G5).
    ///
    /// - throws: ``OutboxError/databaseReplaced(path:)``, `SystemError`.
    func identityOfUnmovedFile() throws -> FileIdentity? {
        // The identity is read first: it is that of this file if the file has not moved by the check that follows.
        let identity = try System.identity(ofFileAt: filePath)
        var hasMoved: Int32 = 0
        let code = sqlite3_file_control(sqliteConnection, "main", SQLITE_FCNTL_HAS_MOVED, &hasMoved)
        guard code == SQLITE_OK, hasMoved == 0 else { throw OutboxError.databaseReplaced(path: filePath) }
        return identity
    }
}
