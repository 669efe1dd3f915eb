import CRoundtableShims
import Foundation
import GRDB
import GRDBSQLite
import RoundtableKernel

extension RawConnection {
    // Rule U2: A handle is made only for the database's own file (device and number), in WAL mode, writable, with the same wal-index
    // mapped: so it is the same copy of SQLite. It is not made in SQLite's shared-cache mode, nor for a connection of Roundtable's own.
    // SQLite's locks are taken under the connection's mutex, once it is seen there that no transaction of the connection is open: SQLite
    // grants a connection the lock that it holds already, and to release that would be to lose commits.

    /// Checks that the connection can be attached to `database` (rule U2).
    func check(for database: SharedDatabase) throws {
        guard let path else { throw RawHandleError.notAFile(shared: database.path) }
        let shared = try? System.identity(ofFileAt: database.path)
        guard let own = try? System.identity(ofFileAt: path), let shared, own == shared else {
            throw RawHandleError.otherDatabase(attached: path, shared: database.path)
        }
        if database.role == .readOnly || isReadOnly { throw RawHandleError.readOnly(path: path) }
        if isInTransaction { throw RawHandleError.transactionOpen(path: path) }
        if OwnConnection.isMarked(self) { throw RawHandleError.ownConnection(path: path) }
        // These pragmas read the database. After that, the connection has the wal-index open.
        guard let mode = text("PRAGMA main.journal_mode"), dataVersion != nil else { throw lastError(path) }
        guard mode == "wal" else { throw RawHandleError.notInWALMode(path: path, mode: mode) }
        if SharedCache.isUsed(by: pointer) { throw RawHandleError.sharedCache(path: path) }
        // All connections of one copy of SQLite share one mapping of the wal-index.
        let page = try database.unsafeReentrantRead { WalIndex($0)?.page }
        guard let page, withWalIndex(\.page) == page else { throw RawHandleError.otherSQLite(path: path) }
    }

    private func lastError(_ path: String) -> DatabaseError {
        let code = ResultCode(rawValue: sqlite3_extended_errcode(pointer))
        guard code != .SQLITE_OK, code.primaryResultCode != .SQLITE_ROW, code.primaryResultCode != .SQLITE_DONE else {
            // A statement of the connection is reading, or its owner's authorizer has denied the pragma.
            return DatabaseError(
                resultCode: .SQLITE_LOCKED,
                message: "\(path): the connection is reading. Finish or reset its statements before it is attached"
            )
        }
        return DatabaseError(resultCode: code, message: "\(path): \(String(cString: sqlite3_errmsg(pointer)))")
    }

    /// Makes SQLite neither checkpoint nor remove the WAL when it closes the connection, because it removes the file by its name, where
    /// another one may be by now.
    func leaveFilesAlone() {
        var isKept: CInt = 1
        sqlite3_file_control(pointer, "main", SQLITE_FCNTL_PERSIST_WAL, &isKept)
        rt_checkpoint_on_close(pointer, 0)
    }
}
