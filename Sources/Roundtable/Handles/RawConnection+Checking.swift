import Foundation
import GRDB
import GRDBSQLite
import RoundtableKernel

extension RawConnection {
    /// Rule U2.
    func check(for database: SharedDatabase) throws {
        guard let path else { throw HandleError.notAFile(shared: database.path) }
        let own = (try? System.status(ofFileAt: path)).flatMap { $0 }
        let shared = (try? System.status(ofFileAt: database.path)).flatMap { $0 }
        guard let own, let shared, own.st_dev == shared.st_dev, own.st_ino == shared.st_ino else {
            throw HandleError.otherDatabase(attached: path, shared: database.path)
        }
        if database.role == .readOnly || isReadOnly { throw HandleError.readOnly(path: path) }
        if isInTransaction { throw HandleError.transactionOpen(path: path) }
        if OwnConnection.isMarked(self) { throw HandleError.ownConnection(path: path) }
        // A read, after which the connection has the wal-index.
        guard let mode = text("PRAGMA main.journal_mode"), dataVersion != nil else { throw lastError(path) }
        guard mode == "wal" else { throw HandleError.notInWALMode(path: path, mode: mode) }
        if SharedCache.isUsed(by: pointer) { throw HandleError.sharedCache(path: path) }
        // Connections of one copy of SQLite share one mapping.
        let page = try database.unsafeReentrantRead { WalIndex($0)?.page }
        guard let page, withWalIndex(\.page) == page else { throw HandleError.otherSQLite(path: path) }
    }

    private func lastError(_ path: String) -> DatabaseError {
        let code = ResultCode(rawValue: sqlite3_extended_errcode(pointer))
        guard code != .SQLITE_OK, code.primaryResultCode != .SQLITE_ROW, code.primaryResultCode != .SQLITE_DONE else {
            // It reads, or its owner has forbidden it.
            return DatabaseError(
                resultCode: .SQLITE_LOCKED,
                message: "\(path): the connection is reading. Finish or reset its statements before it is attached"
            )
        }
        return DatabaseError(resultCode: code, message: "\(path): \(String(cString: sqlite3_errmsg(pointer)))")
    }
}
