import GRDB
import RoundtableKernel

/// All that writes takes the turn first (rule W2), and gives it up when its closure has returned.
///
/// These are the functions of GRDB's `DatabaseWriter` with one difference: they remember the line of code that called
/// them, and other processes that wait are told. Code that calls `some DatabaseWriter` reaches the functions without.
extension SharedDatabase {
    /// Runs `updates` in a transaction, which is committed unless `updates` throws.
    ///
    /// - throws: what `updates` throws; `SQLITE_BUSY`, with the name of who is in the way, when the busy timeout passes.
    @_disfavoredOverload
    public func write<T>(
        file: StaticString = #fileID,
        line: UInt = #line,
        _ updates: (Database) throws -> T
    ) throws -> T {
        try checkProcess()
        return try onWriter(CallSite(file, line)) { db in try self.transaction(db, updates) }
    }

    /// Runs `updates` in a transaction, which is committed unless `updates` throws.
    ///
    /// - throws: what `updates` throws; `CancellationError`; `SQLITE_BUSY`, with the name of who is in the way, when the
    ///   busy timeout passes.
    public func write<T: Sendable>(
        file: StaticString = #fileID,
        line: UInt = #line,
        _ updates: @Sendable (Database) throws -> T
    ) async throws -> T {
        try await onWriter(CallSite(file, line)) { db in try self.transaction(db, updates) }
    }

    /// Schedules a transaction, and returns at once.
    ///
    /// - parameter completion: called with the outcome, while the turn is still had: other processes wait for it.
    public func asyncWrite<T>(
        file: StaticString = #fileID,
        line: UInt = #line,
        _ updates: @escaping @Sendable (Database) throws -> T,
        completion: @escaping @Sendable (Database, Result<T, any Error>) -> Void
    ) {
        onWriterLater(CallSite(file, line)) { db in
            completion(db, Result { try self.writer.namingObstacles { try self.transaction(db, updates) } })
        }
    }

    /// Runs `updates` while having the turn, without a transaction around it: each statement is one, or `updates` opens
    /// its own.
    public func writeWithoutTransaction<T>(
        file: StaticString = #fileID,
        line: UInt = #line,
        _ updates: (Database) throws -> T
    ) rethrows -> T {
        try onWriter(CallSite(file, line)) { db in try self.withoutTransaction(db, updates) }
    }

    /// Runs `updates` while having the turn, without a transaction around it: each statement is one, or `updates` opens
    /// its own.
    public func writeWithoutTransaction<T: Sendable>(
        file: StaticString = #fileID,
        line: UInt = #line,
        _ updates: @Sendable (Database) throws -> T
    ) async throws -> T {
        try await onWriter(CallSite(file, line)) { db in try self.withoutTransaction(db, updates) }
    }

    /// The same, while no read of this participant runs.
    public func barrierWriteWithoutTransaction<T>(
        file: StaticString = #fileID,
        line: UInt = #line,
        _ updates: (Database) throws -> T
    ) throws -> T {
        try checkProcess()
        return try readers.barrier {
            try onWriter(CallSite(file, line)) { db in try self.withoutTransaction(db, updates) }
        }
    }

    /// The same, while no read of this participant runs.
    public func barrierWriteWithoutTransaction<T: Sendable>(
        file: StaticString = #fileID,
        line: UInt = #line,
        _ updates: @Sendable (Database) throws -> T
    ) async throws -> T {
        try checkProcess()
        return try await readers.barrier {
            try await self.onWriter(CallSite(file, line)) { db in try self.withoutTransaction(db, updates) }
        }
    }

    /// Schedules `updates` without a transaction, and returns at once.
    public func asyncWriteWithoutTransaction(
        file: StaticString = #fileID,
        line: UInt = #line,
        _ updates: @escaping @Sendable (Database) -> Void
    ) {
        onWriterLater(CallSite(file, line)) { db in self.withoutTransaction(db, updates) }
    }

    /// Runs `updates` without a transaction, also from inside another write to this database.
    public func unsafeReentrantWrite<T>(
        file: StaticString = #fileID,
        line: UInt = #line,
        _ updates: (Database) throws -> T
    ) rethrows -> T {
        try onWriterReentrantly(CallSite(file, line), updates)
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
        writer.queue.add(transactionObserver: transactionObserver, extent: extent)
    }

    /// Removes a transaction observer. Takes no turn.
    public func remove(transactionObserver: some TransactionObserver) {
        writer.queue.remove(transactionObserver: transactionObserver)
    }
}
