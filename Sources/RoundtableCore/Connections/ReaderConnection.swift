import GRDB
import GRDBSQLite
import Synchronization

/// One read-only connection, with prepared statements for what every read does.
///
/// A GRDB `DatabaseQueue` costs a fraction of a `DatabasePool` reader. The statements that begin a transaction and check the
/// schema are executed through SQLite directly, so that they are compiled only once.
final class ReaderConnection: @unchecked Sendable {
    // @unchecked: the mutable state is confined to `queue`.
    let queue: DatabaseQueue
    private var beginStatement: OpaquePointer?
    private var schemaVersionStatement: OpaquePointer?
    /// GRDB's own, so that GRDB notices the end of the transaction (`Database.transactionDate` depends on it).
    private let commit = ReusedStatement("COMMIT TRANSACTION")
    private(set) var lastSchemaVersion: Int32?
    /// nil for a schema without migrations.
    private let watch: NewerSchemaWatch?
    /// The wal-index, which is mapped as long as the connection is open; nil when the database was not in WAL mode.
    let walIndex: WalIndexView?
    /// Whether the running read was interrupted because the pool is parked.
    let isInterrupted = Atomic(false)
    var wasInterrupted: Bool { isInterrupted.load(ordering: .acquiring) }

    /// - Parameters:
    ///   - watch: is notified of changes of the schema.
    ///   - name: the name that SQLite opens; nil: the path.
    init(
        _ opening: ConnectionOpening,
        _ configuration: Configuration,
        watch: NewerSchemaWatch? = nil,
        at name: String? = nil
    ) throws {
        self.watch = watch
        queue = try opening.queue(configuration, at: name)
        walIndex = try queue.inDatabase { db in
            // SQLite would create a wal-index for a database that does not use it.
            guard try db.isInWALMode() else { return nil }
            if opening.role == .readWrite { try db.checkWalIndexIsWritable(opening.path) }
            return WalIndex(db)?.view
        }
        try queue.inDatabase(prepare)
    }

    private func prepare(_ db: Database) throws {
        beginStatement = try db.prepareRaw("BEGIN DEFERRED TRANSACTION")
        schemaVersionStatement = try db.prepareRaw("PRAGMA schema_version")
    }

    /// Finalizes the statements on the queue, because GRDB may close the connection on another thread at this moment.
    deinit {
        if !isFinalized { queue.unsafeReentrantWrite { _ in finalize() } }
    }

    /// Runs `body` in a read transaction whose snapshot is established before it starts. Call it on `queue`.
    func isolated<T>(_ db: Database, _ body: (Database) throws -> T) throws -> T {
        try begin(db)
        let result: T
        do {
            result = try body(db)
        } catch {
            // The read wrote nothing, so it only has to be ended. The first error is the one to report.
            try? end(db)
            throw error
        }
        try end(db)
        return result
    }

    /// Begins a read transaction, and establishes its snapshot.
    func begin(_ db: Database) throws {
        try beginUnread(db)
        do {
            try forgetSchemaIfChanged(db)
        } catch {
            // GRDB has seen nothing of the transaction.
            endUnobserved(db)
            throw error
        }
    }

    /// Begins a transaction without a snapshot, which takes no lock.
    func beginUnread(_ db: Database) throws { try step(beginStatement, db) }

    func end(_ db: Database) throws {
        // A closed connection has no transaction.
        guard db.isInTransaction else { return }
        do {
            try commit.execute(db)
        } catch {
            // The transaction must also end if the task was cancelled or the connection was interrupted.
            try db.rollback()
            if !(error is CancellationError) { throw error }
        }
    }

    /// Ends a transaction of `begin` without notifying GRDB's observers.
    func endUnobserved(_ db: Database) {
        guard db.isInTransaction, sqlite3_exec(db.sqliteConnection, "COMMIT", nil, nil, nil) != SQLITE_OK else {
            return
        }
        // The connection was interrupted.
        sqlite3_exec(db.sqliteConnection, "ROLLBACK", nil, nil, nil)
    }

    /// Clears GRDB's schema cache if another connection has changed the schema since the last access.
    func forgetSchemaIfChanged(_ db: Database) throws {
        guard let statement = schemaVersionStatement else { throw DatabaseError.closed }
        defer { sqlite3_reset(statement) }
        guard sqlite3_step(statement) == SQLITE_ROW else { throw DatabaseError(lastErrorOf: db) }
        let version = sqlite3_column_int(statement, 0)
        if version != lastSchemaVersion {
            lastSchemaVersion = version
            db.clearSchemaCache()
            if watch?.readerSees(Int64(version), db) == false { lastSchemaVersion = nil }
        }
    }

    /// - throws: `SQLITE_BUSY` when a user's statement keeps the connection open. The connection is then unchanged, including its
    ///   transaction.
    func close() throws {
        queue.unsafeReentrantWrite { _ in finalize() }
        do {
            try OwnConnection.close(queue)
        } catch {
            // Without the prepared statements, accesses would report that the connection is closed.
            try? queue.unsafeReentrantWrite(prepare)
            throw error
        }
    }

    /// Whether the connection is closed, or about to be. Confined to `queue`.
    var isFinalized: Bool { beginStatement == nil }

    /// Finalizes the statements of Roundtable, which would keep the connection open. The connection cannot begin accesses any
    /// more. Call it on `queue`.
    func finalize() {
        sqlite3_finalize(beginStatement)
        sqlite3_finalize(schemaVersionStatement)
        beginStatement = nil
        schemaVersionStatement = nil
        commit.forget()
    }

    private func step(_ statement: OpaquePointer?, _ db: Database) throws {
        guard let statement else { throw DatabaseError.closed }
        defer { sqlite3_reset(statement) }
        guard sqlite3_step(statement) == SQLITE_DONE else { throw DatabaseError(lastErrorOf: db) }
    }
}

extension DatabaseError {
    package init(lastErrorOf db: Database) {
        self.init(
            resultCode: ResultCode(rawValue: sqlite3_extended_errcode(db.sqliteConnection)),
            message: db.lastErrorMessage
        )
    }

    /// The error that GRDB throws after `close()`.
    static var closed: DatabaseError {
        DatabaseError(resultCode: .SQLITE_MISUSE, message: "Connection is closed")
    }

    /// The error after `close()`, with the path of the database.
    package static func closed(_ path: String) -> DatabaseError {
        DatabaseError(resultCode: .SQLITE_MISUSE, message: "\(path): closed by close(): open it again")
    }
}
