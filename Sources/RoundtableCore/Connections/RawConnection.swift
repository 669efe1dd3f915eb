import GRDB
import GRDBSQLite

/// A connection that its owner has opened and continues to use. Roundtable sets nothing on it permanently: no hook, no function, no
/// statement.
///
/// Use it on the thread that may use the connection at the moment. Only `interrupt` may be called from any thread.
struct RawConnection: @unchecked Sendable {
    // @unchecked: the pointer is constant, and the owner decides which thread may use the connection.
    let pointer: OpaquePointer

    /// What identifies the connection while it is open.
    var number: UInt { UInt(bitPattern: pointer) }

    /// The absolute path of the database file, as it was given to SQLite; nil for databases in memory, and temporary ones.
    var path: String? {
        guard let name = sqlite3_db_filename(pointer, "main") else { return nil }
        let path = String(cString: name)
        return path.isEmpty ? nil : path
    }

    var isReadOnly: Bool { sqlite3_db_readonly(pointer, "main") == 1 }

    /// Whether the connection is inside a transaction that its owner must end, or holds SQLite's write lock.
    var isInTransaction: Bool {
        isInExplicitTransaction || isWriting
    }

    /// Whether several threads may use the connection at the same time (`SQLITE_OPEN_FULLMUTEX`).
    var hasMutex: Bool { sqlite3_db_mutex(pointer) != nil }

    /// Whether no statement of the connection reads or writes.
    var isIdle: Bool { sqlite3_txn_state(pointer, nil) == SQLITE_TXN_NONE }

    /// Whether `BEGIN` was run, and neither `COMMIT` nor `ROLLBACK`. It does not wait for a statement that another thread runs.
    var isInExplicitTransaction: Bool { sqlite3_get_autocommit(pointer) == 0 }

    /// Makes sure that the connection does not hold SQLite's write lock: a statement that still writes is reset, which commits it if it is not
    /// inside a transaction, and a transaction that writes is rolled back.
    ///
    /// - returns: whether there was such a transaction.
    func endWriting() -> Bool {
        guard isWriting else { return false }
        resetStatements { sqlite3_stmt_readonly($0) == 0 }
        guard isWriting, isInExplicitTransaction else { return false }
        // Each call may be interrupted, as long as the gate is being closed. An interruption lasts while a statement runs.
        while isInExplicitTransaction, sqlite3_exec(pointer, "ROLLBACK", nil, nil, nil) == SQLITE_INTERRUPT {
            resetStatements { _ in true }
        }
        return true
    }

    private var isWriting: Bool { sqlite3_txn_state(pointer, "main") == SQLITE_TXN_WRITE }

    private func resetStatements(where isChosen: (OpaquePointer) -> Bool) {
        // Another thread may finalize the statement that was found.
        let mutex = sqlite3_db_mutex(pointer)
        sqlite3_mutex_enter(mutex)
        defer { sqlite3_mutex_leave(mutex) }
        var statement = sqlite3_next_stmt(pointer, nil)
        while let present = statement {
            if sqlite3_stmt_busy(present) != 0, isChosen(present) { sqlite3_reset(present) }
            statement = sqlite3_next_stmt(pointer, present)
        }
    }

    /// May be called from any thread while the connection is open.
    func interrupt() { sqlite3_interrupt(pointer) }

    /// A number that changes when another connection commits, and never when this connection does
    /// ([PRAGMA data_version](https://www.sqlite.org/pragma.html#pragma_data_version)). nil when it cannot be read.
    var dataVersion: Int64? {
        // Within a read, SQLite would return the data version of the snapshot that is being read.
        guard isIdle else { return nil }
        return integer("PRAGMA main.data_version")
    }

    var schemaVersion: Int64? { integer("PRAGMA main.schema_version") }

    /// The number of pages after which SQLite checkpoints automatically within a commit; 0 when automatic checkpoints are off or the owner
    /// has set a WAL hook ([PRAGMA wal_autocheckpoint](https://www.sqlite.org/pragma.html#pragma_wal_autocheckpoint)).
    var automaticCheckpoint: Int64 { integer("PRAGMA wal_autocheckpoint") ?? 0 }

    /// Removes SQLite's own WAL hook. Call it only if SQLite's own WAL hook is set, because this removes any other hook, too.
    func turnAutomaticCheckpointOff() { _ = sqlite3_wal_autocheckpoint(pointer, 0) }

    // Rule U9: When a raw handle is made, a connection that has SQLite's default, `synchronous = FULL`, gets the value of the database's
    // durability, so that its commits do not sync within the turn, and with it `fullfsync` and `checkpoint_fullfsync`. Other values stay,
    // and what the owner sets afterwards stays.

    /// Sets [PRAGMA synchronous](https://www.sqlite.org/pragma.html#pragma_synchronous) and its companions, if the connection has SQLite's
    /// default (rule U9). The connection must not be inside a transaction.
    func setSyncing(_ pragmas: [(pragma: String, value: String)]) {
        guard integer("PRAGMA main.synchronous") == Self.fullSynchronous else { return }
        for (pragma, value) in pragmas { sqlite3_exec(pointer, "PRAGMA main.\(pragma) = \(value)", nil, nil, nil) }
    }

    private static let fullSynchronous: Int64 = 2

    func integer(_ sql: String) -> Int64? { first(sql) { sqlite3_column_int64($0, 0) } }

    func text(_ sql: String) -> String? { first(sql) { sqlite3_column_text($0, 0).map { String(cString: $0) } } ?? nil }

    /// Runs `body` with the first row of a statement. The statement is not kept, because the owner could then not close the connection.
    private func first<T>(_ sql: String, _ body: (OpaquePointer) -> T) -> T? {
        var statement: OpaquePointer?
        guard sqlite3_prepare_v2(pointer, sql, -1, &statement, nil) == SQLITE_OK, let statement else { return nil }
        defer { sqlite3_finalize(statement) }
        return sqlite3_step(statement) == SQLITE_ROW ? body(statement) : nil
    }

    // MARK: The wal-index

    /// Runs `body` with the wal-index, holding the mutex of the connection if it has one, as SQLite does.
    func withWalIndex<T>(_ body: (WalIndex) throws -> T) rethrows -> T? {
        let mutex = sqlite3_db_mutex(pointer)
        sqlite3_mutex_enter(mutex)
        defer { sqlite3_mutex_leave(mutex) }
        return try WalIndex(connection: pointer).map(body)
    }

    /// Whether the write lock is free (rule T12). `isInTransaction` is checked while the mutex is held. Otherwise another thread could
    /// begin a transaction in between: its lock would be taken for a free one, and released.
    var isWriteLockFree: Bool { withWalIndex { !isInTransaction && $0.isWriteLockFree } == true }
}
