import GRDB

/// Runs write transactions like GRDB's `Database.inTransaction`, without compiling `BEGIN` and `COMMIT` each time: that
/// is a fifth of a small transaction, spent while all other processes wait.
///
/// What GRDB's method also does is to make statements fail (`SQLITE_ABORT`) that come after SQLite has rolled the
/// transaction back by itself (disk full, interrupted, `ON CONFLICT ROLLBACK`), when the closure caught that error and
/// goes on: they would be committed one by one. Here such a commit is vetoed. Confined to the writer's queue.
final class WriteTransaction: TransactionObserver {
    private let begin = ReusedStatement("BEGIN IMMEDIATE TRANSACTION")
    private let commit = ReusedStatement("COMMIT TRANSACTION")
    private let interruption = InterruptionHold()
    private var isInsideBlock = false
    private var isCommitting = false
    /// Whether what runs must end without a commit (rule F3).
    private let isDoomed: () -> Bool
    /// Whether a commit has been made since `beginAccess()`.
    private(set) var hasCommitted = false
    /// How often anything was rolled back here: who is inside of a transaction can tell whether it is still the same one.
    private(set) var rollbacks = 0
    /// Called when something is written after a commit: by observers, for example.
    var goesOn: () -> Void = {}
    /// Not weak: Swift moves the reference count of an object that something refers to weakly out of it, and each of the dozens of
    /// retains and releases of a write is slower then.
    private unowned var database: Database?
    /// What is told of the same events: two observers would cost GRDB twice the work.
    var recorder: CommitRecorder?
    /// Called when a transaction of `run` has been committed, before other observers are: those may take long.
    var didCommit: (Database) -> Void = { _ in }
    /// Called when any transaction has been rolled back.
    var didRollback: () -> Void = {}

    init(isDoomed: @escaping () -> Bool = { false }) { self.isDoomed = isDoomed }

    /// On the connection's queue.
    func install(in db: Database) {
        database = db
        // GRDB refers weakly to observers with a lifetime of their own.
        db.add(transactionObserver: self, extent: .databaseLifetime)
    }

    /// Before the connection closes, on its queue.
    func forgetStatements() {
        begin.forget()
        commit.forget()
        interruption.forget()
    }

    /// Statements may run again after an interruption.
    func endAccess() { interruption.release() }

    func beginAccess() { hasCommitted = false }

    /// - throws: ``NotBegun`` when `BEGIN` fails; else what `updates` or `COMMIT` throws.
    func run(_ db: Database, _ updates: () throws -> Void) throws {
        do { try begin.execute(db) } catch { throw NotBegun(reason: error, isForGate: isDoomed()) }
        do {
            interruption.take(db)
            defer { interruption.release() }
            isInsideBlock = true
            defer { isInsideBlock = false }
            try updates()
            guard db.isInTransaction, !isDoomed() else { throw Self.aborted }
            interruption.release()
            // Observers that are told of the commit may write.
            isInsideBlock = false
            isCommitting = true
            defer { isCommitting = false }
            try commit.execute(db)
        } catch {
            // The first error is the one that tells what happened.
            try? db.rollback()
            throw error
        }
    }

    private static var aborted: DatabaseError {
        DatabaseError(resultCode: .SQLITE_ABORT, message: "Transaction was aborted")
    }

    // MARK: TransactionObserver

    /// GRDB asks before each statement that writes. In a transaction of the closure's own, the interruption is held from here on.
    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool {
        if hasCommitted { goesOn() }
        if !interruption.isHeld, isDoomed(), let database {
            interruption.take(database)
            database.interruptNow()
        }
        recorder?.willWrite(eventKind.tableName)
        return false
    }
    func databaseDidChange(with event: DatabaseEvent) {}
    func databaseWillCommit() throws {
        if isInsideBlock || !isCommitting && isDoomed() { throw Self.aborted }
        try recorder?.willCommit()
    }
    func databaseDidCommit(_ db: Database) {
        hasCommitted = true
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

/// The transaction has not begun: nothing has run.
struct NotBegun: Error {
    let reason: any Error
    /// Because the gate was closed.
    let isForGate: Bool
}

/// A transaction that writes nothing, which GRDB tells observers of all the same: how they learn of changes that other
/// connections made. Takes no lock. Confined to the connection's queue.
final class EmptyTransaction {
    private let begin = ReusedStatement("BEGIN DEFERRED TRANSACTION")
    private let commit = ReusedStatement("COMMIT TRANSACTION")

    func run(_ db: Database, _ body: () throws -> Void) throws {
        try begin.execute(db)
        do {
            try body()
            try commit.execute(db)
        } catch {
            // The first error is the one that tells what happened.
            try? db.rollback()
            throw error
        }
    }

    /// Before the connection closes.
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
            // One that failed cannot be used again: resetting it would throw the same error.
            statement = nil
            throw error
        }
    }

    /// A connection with statements does not close.
    func forget() { statement = nil }
}
