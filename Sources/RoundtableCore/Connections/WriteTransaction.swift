import GRDB
import GRDBSQLite
import RoundtableGate
import RoundtableKernel
import Synchronization

/// Runs write transactions like GRDB's `Database.inTransaction`, without compiling `BEGIN` and `COMMIT` each time. Compiling them
/// takes a fifth of a small transaction, while all other processes wait.
///
/// SQLite may roll a transaction back by itself (disk full, interrupted, `ON CONFLICT ROLLBACK`). If the closure catches that
/// error and continues, its later statements would be committed one by one. GRDB's method makes these statements fail
/// (`SQLITE_ABORT`); this class vetoes such a commit instead. GRDB does not notify observers of such a rollback, so that
/// `afterNextTransaction` would report the outcome of the next transaction; this class lets GRDB notify them. Confined to the writer's queue.
final class WriteTransaction: TransactionObserver {
    private let begin = ReusedStatement("BEGIN IMMEDIATE TRANSACTION")
    private let commit = ReusedStatement("COMMIT TRANSACTION")
    private let interruption = InterruptionHold()
    private var isInsideBlock = false
    private var isCommitting = false
    /// The files, which must be in their places when a transaction commits (rule W12b); nil: not compared.
    private let files: DatabaseFiles?

    // Rule F3: What is inside when the gate closes may finish until shortly before the deadline. Then it is *aborted*: its connection is
    // interrupted, a statement that it keeps running makes the interruption last, so that each later statement fails, and its commit is
    // vetoed. It ends with a rollback. Whether it committed or was rolled back is what SQLite says, never the gate.

    /// nil on a connection that does not write.
    private let gate: SuspensionGate?
    /// Whether a commit has been made since `beginAccess()`.
    var hasCommitted: Bool { commits != commitsBeforeAccess }
    /// Whether `BEGIN` has failed since `beginAccess()`. Nothing has run then.
    private(set) var hasFailedToBegin = false
    private var commits = 0
    private var commitsBeforeAccess = 0
    /// The number of rollbacks on the connection. Code inside a transaction can thereby detect whether it is still the same
    /// transaction.
    private(set) var rollbacks = 0
    /// The value of `rollbacks` when `run` began its transaction.
    private var rollbacksBefore = 0
    /// Called when a statement writes after a commit, such as a statement of an observer.
    var didContinue: () -> Void = {}
    /// The reference is not weak, because Swift moves the reference count of an object with weak references out of the object.
    /// Each of the dozens of retains and releases of a write would then be slower.
    private unowned var database: Database?
    /// Receives the same events from this object, because two observers would cost GRDB twice the work.
    var recorder: CommitRecorder?
    /// Called when a transaction of `run` has been committed, before other observers are notified, because those may take long.
    var didCommit: (Database) -> Void = { _ in }
    /// Called when any transaction has been rolled back.
    var didRollback: () -> Void = {}

    init(files: DatabaseFiles? = nil, gate: SuspensionGate? = nil) {
        self.files = files
        self.gate = gate
    }

    /// Whether the running transaction must end without a commit (rule F3).
    private func isAborted() -> Bool { gate?.isAborted == true }

    /// Adds this observer to the connection. Call it on the connection's queue.
    func install(in db: Database) {
        database = db
        // With `.observerLifetime`, GRDB would keep a weak reference to this object.
        db.add(transactionObserver: self, extent: .databaseLifetime)
    }

    /// Releases the statements. Call it on the connection's queue, before the connection closes.
    func forgetStatements() {
        begin.forget()
        commit.forget()
        interruption.forget()
    }

    /// Releases the interruption, so that statements may run again.
    func endAccess() { interruption.release() }

    func beginAccess() {
        commitsBeforeAccess = commits
        hasFailedToBegin = false
    }

    /// Notes a commit of which SQLite called no hook.
    func noteUnseenCommit() { commits += 1 }

    /// - throws: what `BEGIN`, `updates` or `COMMIT` throws.
    func run(_ db: Database, _ updates: () throws -> Void) throws {
        do { try begin.execute(db) } catch {
            hasFailedToBegin = true
            throw error
        }
        rollbacksBefore = rollbacks
        let commitsBefore = commits
        do {
            interruption.take(db)
            defer { interruption.release() }
            isInsideBlock = true
            defer { isInsideBlock = false }
            try updates()
            guard db.isInTransaction, !isAborted() else { throw Self.aborted }
            interruption.release()
            // Observers that are notified of the commit may write.
            isInsideBlock = false
            isCommitting = true
            defer { isCommitting = false }
            do { try commit.execute(db) } catch let error as DatabaseError { throw error.namingAttached(db) }
        } catch {
            if !db.isInTransaction, rollbacks == rollbacksBefore, commits == commitsBefore {
                // The rollback of an empty transaction notifies the observers. This statement is not GRDB's, which would refuse it in a
                // task that was cancelled.
                sqlite3_exec(db.sqliteConnection, "BEGIN", nil, nil, nil)
            }
            // The first error explains what happened.
            try? db.rollback()
            throw error
        }
    }

    /// Lets statements run again after an interruption that SQLite has survived. One of the gate stays.
    ///
    /// - returns: whether statements may run.
    @discardableResult
    func endInterruption(_ db: Database) -> Bool {
        guard interruption.isHeld, !isAborted() else { return false }
        interruption.release()
        interruption.take(db)
        // The gate may have interrupted meanwhile.
        if isAborted() { db.interruptNow() }
        return !isAborted()
    }

    /// Whether the transaction that `run` has begun is open. Call it in the closure of `run`.
    func isOpen(_ db: Database) -> Bool { db.isInTransaction && rollbacks == rollbacksBefore }

    /// The error of a closure that has ended its transaction, or that ran behind a closed gate.
    static var aborted: DatabaseError {
        DatabaseError(resultCode: .SQLITE_ABORT, message: "Transaction was aborted")
    }

    // MARK: TransactionObserver

    /// GRDB calls this before each statement that writes. In a transaction that the closure opened, the interruption is held from
    /// here on.
    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool {
        if hasCommitted { didContinue() }
        if !interruption.isHeld, isAborted(), let database {
            interruption.take(database)
            database.interruptNow()
        }
        recorder?.willWrite(eventKind.tableName)
        return false
    }
    func databaseDidChange(with event: DatabaseEvent) {}
    func databaseWillCommit() throws {
        if isInsideBlock || !isCommitting && isAborted() { throw Self.aborted }
        try files?.check()
        try recorder?.willCommit()
    }
    func databaseDidCommit(_ db: Database) {
        commits += 1
        if isCommitting {
            isCommitting = false
            didCommit(db)
        }
        recorder?.didCommit(db)
    }
    func databaseDidRollback(_ db: Database) {
        rollbacks += 1
        didRollback()
        recorder?.didRollback()
    }
}

/// Why the closure of a write has not run. Nothing was done.
package enum Refusal: Error {
    /// The gate is closed, or was closed before the transaction began. The write waits until it opens, or fails.
    case turnedBack
    case failed(any Error)
}

extension SuspensionGate {
    /// Whether the gate is why a lock was not acquired.
    func isObstacle(_ error: any Error) -> Bool {
        isClosed || isAborted
            || (error as? DatabaseError)?.resultCode == .SQLITE_BUSY && hasGivenUp.load(ordering: .acquiring)
    }
}

/// A transaction that writes nothing, but of which GRDB notifies observers. In this way, they learn of changes by other
/// connections. It takes no lock. Confined to the connection's queue.
final class EmptyTransaction {
    private let begin = ReusedStatement("BEGIN DEFERRED TRANSACTION")
    private let commit = ReusedStatement("COMMIT TRANSACTION")

    func run(_ db: Database, _ body: () throws -> Void) throws {
        try begin.execute(db)
        do {
            try body()
            try commit.execute(db)
        } catch {
            // The first error explains what happened.
            try? db.rollback()
            throw error
        }
    }

    /// Releases the statements. Call it before the connection closes.
    func forgetStatements() {
        begin.forget()
        commit.forget()
    }
}

/// A GRDB statement that is compiled once, outside of the caches that `Database.clearSchemaCache()` empties.
final class ReusedStatement {
    private let sql: String
    private var statement: Statement?

    init(_ sql: String) { self.sql = sql }

    func execute(_ db: Database) throws {
        do {
            if let statement { return try statement.execute() }
            let statement = try db.makeStatement(sql: sql)
            self.statement = statement
            try statement.execute()
        } catch {
            // A failed statement cannot be used again, because resetting it would throw the same error.
            statement = nil
            throw error
        }
    }

    /// Releases the statement, because a connection with statements does not close.
    func forget() { statement = nil }
}
