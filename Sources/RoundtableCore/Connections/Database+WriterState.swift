import CRoundtableShims
import GRDB
import GRDBSQLite

/// What the writer asks of its connection, and sets on it.
extension Database {
    /// `isInsideTransaction` without GRDB's check of the thread, which costs more than all the rest.
    var isInTransaction: Bool { sqliteConnection.map { sqlite3_get_autocommit($0) == 0 } ?? false }

    /// Whether the connection holds SQLite's write lock, perhaps because of a statement that is still being stepped
    /// ([sqlite3_txn_state](https://www.sqlite.org/c3ref/txn_state.html)).
    var isWriting: Bool {
        guard let sqliteConnection else { return false }
        return isInTransaction || sqlite3_txn_state(sqliteConnection, "main") == SQLITE_TXN_WRITE
    }

    /// Whether no statement of the connection reads or writes. SQLite's own locks must not be mistaken for locks that Roundtable
    /// takes below it.
    var isWithoutTransaction: Bool {
        guard let sqliteConnection else { return false }
        return sqlite3_txn_state(sqliteConnection, nil) == SQLITE_TXN_NONE
    }

    /// Keeps `-wal` and `-shm` when the last connection closes, so that read-only processes can open the database
    /// ([SQLITE_FCNTL_PERSIST_WAL](https://www.sqlite.org/c3ref/c_fcntl_begin_atomic_write.html)). No checkpoint is made then: SQLite takes an
    /// exclusive lock for that, which must not be held when the process is frozen.
    func leaveWalFilesWhenClosed() throws {
        guard let sqliteConnection else { return }
        var flag: CInt = 1
        let kept = sqlite3_file_control(sqliteConnection, "main", SQLITE_FCNTL_PERSIST_WAL, &flag)
        let code = kept == SQLITE_OK ? rt_checkpoint_on_close(sqliteConnection, 0) : kept
        guard code == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
    }
}
