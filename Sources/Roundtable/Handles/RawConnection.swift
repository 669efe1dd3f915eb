import GRDB
import GRDBSQLite
import RoundtableKernel

/// A connection that somebody else has opened, and goes on using. Nothing is set on it, and nothing stays on it: no hook, no function,
/// no statement.
///
/// For the thread that may use it now, but for `interrupt`.
struct RawConnection: @unchecked Sendable {
    // @unchecked: a constant pointer; who may use it is the owner's to say.
    let pointer: OpaquePointer

    /// As SQLite was asked to open it, made absolute; nil for databases in memory, and temporary ones.
    var path: String? {
        guard let name = sqlite3_db_filename(pointer, "main") else { return nil }
        let path = String(cString: name)
        return path.isEmpty ? nil : path
    }

    var isReadOnly: Bool { sqlite3_db_readonly(pointer, "main") == 1 }

    /// Whether it is inside of a transaction that the owner is to end, or holds SQLite's write lock.
    var isInTransaction: Bool {
        sqlite3_get_autocommit(pointer) == 0 || sqlite3_txn_state(pointer, "main") == SQLITE_TXN_WRITE
    }

    /// Whether several threads may use it at once (`SQLITE_OPEN_FULLMUTEX`).
    var hasMutex: Bool { sqlite3_db_mutex(pointer) != nil }

    /// Whether no statement reads or writes.
    var isIdle: Bool { sqlite3_txn_state(pointer, nil) == SQLITE_TXN_NONE }

    /// From any thread, while the connection is open.
    func interrupt() { sqlite3_interrupt(pointer) }

    /// Moves when another connection commits, and never when this one does
    /// ([PRAGMA data_version](https://www.sqlite.org/pragma.html#pragma_data_version)). nil when it cannot be told.
    var dataVersion: Int64? {
        // Within a read, SQLite would tell of the moment that is being read.
        guard isIdle else { return nil }
        return integer("PRAGMA main.data_version")
    }

    var schemaVersion: Int64? { integer("PRAGMA main.schema_version") }

    /// After how many pages SQLite checkpoints by itself within a commit; 0 when it does not, or the owner has a WAL hook
    /// ([PRAGMA wal_autocheckpoint](https://www.sqlite.org/pragma.html#pragma_wal_autocheckpoint)).
    var automaticCheckpoint: Int64 { integer("PRAGMA wal_autocheckpoint") ?? 0 }

    /// Takes SQLite's own WAL hook away. Only where that is the one that is set.
    func turnAutomaticCheckpointOff() { _ = sqlite3_wal_autocheckpoint(pointer, 0) }

    func integer(_ sql: String) -> Int64? { first(sql) { sqlite3_column_int64($0, 0) } }

    func text(_ sql: String) -> String? { first(sql) { sqlite3_column_text($0, 0).map { String(cString: $0) } } ?? nil }

    /// The first column of all rows. Nothing when it cannot be read.
    func texts(_ sql: String) -> [String] {
        var statement: OpaquePointer?
        guard sqlite3_prepare_v2(pointer, sql, -1, &statement, nil) == SQLITE_OK, let statement else { return [] }
        defer { sqlite3_finalize(statement) }
        var texts: [String] = []
        while sqlite3_step(statement) == SQLITE_ROW {
            if let text = sqlite3_column_text(statement, 0) { texts.append(String(cString: text)) }
        }
        return texts
    }

    /// The first row of a statement. It is not kept: the owner could not close the connection.
    private func first<T>(_ sql: String, _ body: (OpaquePointer) -> T) -> T? {
        var statement: OpaquePointer?
        guard sqlite3_prepare_v2(pointer, sql, -1, &statement, nil) == SQLITE_OK, let statement else { return nil }
        defer { sqlite3_finalize(statement) }
        return sqlite3_step(statement) == SQLITE_ROW ? body(statement) : nil
    }

    // MARK: The wal-index

    /// Runs `body` while nobody writes, the connection itself included.
    ///
    /// - returns: nil when somebody does.
    @discardableResult
    func whileNobodyWrites<T>(_ body: (WalIndex) -> T) -> T? {
        // SQLite grants a connection the lock that it holds already.
        withWalIndex { index in isInTransaction ? nil : index.whileNobodyWrites { body(index) } } ?? nil
    }

    /// Runs `body` with the wal-index, as SQLite does: with the mutex of the connection, where it has one.
    func withWalIndex<T>(_ body: (WalIndex) throws -> T) rethrows -> T? {
        let mutex = sqlite3_db_mutex(pointer)
        sqlite3_mutex_enter(mutex)
        defer { sqlite3_mutex_leave(mutex) }
        return try WalIndex(connection: pointer).map(body)
    }

    /// Rule T12. Whether a transaction is open is asked within the mutex: else another thread could begin one in between, whose lock would be taken for a free
    /// one, and be let go of.
    var isWriteLockFree: Bool { withWalIndex { !isInTransaction && $0.isWriteLockFree } == true }
}
