import GRDB
import RoundtableKernel

/// All that writes takes the turn first (rule W2), and gives it up when its closure has returned.
///
/// While the database is suspended, async functions and those that return at once wait, and blocking ones throw an error of code
/// `SQLITE_INTERRUPT`: what else they do is the choice of ``Options/whileSuspended``, and of the parameter of the same name.
///
/// These are the functions of GRDB's `DatabaseWriter` with one difference: they remember the line of code that called
/// them, and other processes that wait are told. Code that calls `some DatabaseWriter` reaches the functions without.
extension SharedDatabase {
    /// Runs `updates` in a transaction, which is committed unless `updates` throws.
    ///
    /// - throws: what `updates` throws; `SQLITE_BUSY`, with the name of who is in the way, when the busy timeout passes.
    @_disfavoredOverload
    public func write<T>(
        whileSuspended: WhileSuspended? = nil,
        file: StaticString = #fileID,
        line: UInt = #line,
        _ updates: (Database) throws -> T
    ) throws -> T {
        var result: T?
        try onWriter(blockingWrite(CallSite(file, line), whileSuspended), refuse: { throw $0 }) { db in
            try self.transaction(db) { result = try updates(db) }
        }
        return result!
    }

    /// Runs `updates` in a transaction, which is committed unless `updates` throws.
    ///
    /// - throws: what `updates` throws; `CancellationError`; `SQLITE_BUSY`, with the name of who is in the way, when the
    ///   busy timeout passes.
    public func write<T: Sendable>(
        whileSuspended: WhileSuspended? = nil,
        file: StaticString = #fileID,
        line: UInt = #line,
        _ updates: @Sendable (Database) throws -> T
    ) async throws -> T {
        try await onWriter(waitingWrite(CallSite(file, line), whileSuspended)) { db in
            try self.transaction(db, updates)
        }
    }

    /// Schedules a transaction, and returns at once.
    ///
    /// - parameter completion: called with the outcome, while the turn is still had: other processes wait for it.
    public func asyncWrite<T>(
        whileSuspended: WhileSuspended? = nil,
        file: StaticString = #fileID,
        line: UInt = #line,
        _ updates: @escaping @Sendable (Database) throws -> T,
        completion: @escaping @Sendable (Database, Result<T, any Error>) -> Void
    ) {
        let write = waitingWrite(CallSite(file, line), whileSuspended)
        onWriterLater(write, failed: { db, error in completion(db, .failure(error)) }) { db in
            let result: Result<T, any Error>
            do {
                result = .success(try self.writer.namingObstacles { try self.transaction(db, updates) })
            } catch let error as NotBegun {
                if error.isForGate || self.gate.isClosed { throw error }
                result = .failure(error.reason)
            } catch {
                result = .failure(self.interruption(by: error)?.error ?? error)
            }
            // It may write.
            self.gate.runningGoesOn()
            completion(db, result)
        }
    }

    /// Runs `updates` while having the turn, without a transaction around it: each statement is one, or `updates` opens
    /// its own.
    public func writeWithoutTransaction<T>(
        whileSuspended: WhileSuspended? = nil,
        file: StaticString = #fileID,
        line: UInt = #line,
        _ updates: (Database) throws -> T
    ) rethrows -> T {
        try onWriterWithoutTransaction(blockingWrite(CallSite(file, line), whileSuspended), updates)
    }

    /// Runs `updates` while having the turn, without a transaction around it: each statement is one, or `updates` opens
    /// its own.
    public func writeWithoutTransaction<T: Sendable>(
        whileSuspended: WhileSuspended? = nil,
        file: StaticString = #fileID,
        line: UInt = #line,
        _ updates: @Sendable (Database) throws -> T
    ) async throws -> T {
        try await onWriter(waitingWrite(CallSite(file, line), whileSuspended)) { db in
            try self.withoutTransaction(db, updates)
        }
    }

    /// The same, while no read of this participant runs.
    public func barrierWriteWithoutTransaction<T>(
        whileSuspended: WhileSuspended? = nil,
        file: StaticString = #fileID,
        line: UInt = #line,
        _ updates: (Database) throws -> T
    ) throws -> T {
        try onWriterAlone(blockingWrite(CallSite(file, line), whileSuspended)) { db in
            try self.withoutTransaction(db, updates)
        }
    }

    /// The same, while no read of this participant runs.
    public func barrierWriteWithoutTransaction<T: Sendable>(
        whileSuspended: WhileSuspended? = nil,
        file: StaticString = #fileID,
        line: UInt = #line,
        _ updates: @Sendable (Database) throws -> T
    ) async throws -> T {
        try await onWriterAlone(waitingWrite(CallSite(file, line), whileSuspended)) { db in
            try self.withoutTransaction(db, updates)
        }
    }

    /// Schedules `updates` without a transaction, and returns at once.
    public func asyncWriteWithoutTransaction(
        file: StaticString = #fileID,
        line: UInt = #line,
        _ updates: @escaping @Sendable (Database) -> Void
    ) {
        // Nobody could be told that it failed.
        onWriterLater(waitingWrite(CallSite(file, line), .wait)) { db in self.withoutTransaction(db, updates) }
    }

    /// Runs `updates` without a transaction, also from inside another write to this database.
    public func unsafeReentrantWrite<T>(
        whileSuspended: WhileSuspended? = nil,
        file: StaticString = #fileID,
        line: UInt = #line,
        _ updates: (Database) throws -> T
    ) rethrows -> T {
        try onWriterReentrantly(blockingWrite(CallSite(file, line), whileSuspended), updates)
    }

    /// Adds a transaction observer. Takes no turn.
    ///
    /// It is told of each commit of this participant, and of those of others together, when the writer connection is idle: by
    /// `databaseDidChange()`, without an event, and `databaseDidCommit(_:)`.
    public func add(
        transactionObserver: some TransactionObserver,
        extent: Database.TransactionObservationExtent = .observerLifetime
    ) {
        guard isInOwnProcess else { return }
        observatory.observeOnWriterEventually()
        writer.add(transactionObserver, extent)
    }

    /// Removes a transaction observer. Takes no turn.
    public func remove(transactionObserver: some TransactionObserver) {
        writer.remove(transactionObserver)
    }
}
