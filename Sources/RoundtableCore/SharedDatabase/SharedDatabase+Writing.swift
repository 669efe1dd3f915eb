import GRDB
import RoundtableGate
import RoundtableKernel

// Rule W2: The writer takes the turn on its own queue, before its closure runs. A participant has at most one ticket.

/// Each write acquires the turn first (rule W2). It releases the turn when its closure has returned, or earlier, when its
/// transaction has been committed.
///
/// While the database is suspended, async functions and functions that return immediately wait, and blocking functions throw an error
/// of code `SQLITE_INTERRUPT`. ``Options/whileSuspended`` and the parameter of the same name change this.
///
/// Each write has a priority among the writes that wait for the turn (<doc:WritesAndCheckpoints#Who-goes-first>): the parameter `priority`,
/// or ``Options/priority``.
///
/// These are the functions of GRDB's `DatabaseWriter` with one difference: they record the line of code that called them, and
/// show it to other processes that wait. Code that calls `some DatabaseWriter` reaches the functions that do not record it.
extension SharedDatabase {
    /// Runs `updates` in a transaction, which is committed unless `updates` throws.
    ///
    /// - throws: what `updates` throws; `SQLITE_BUSY`, with the name of the lock's owner, when the busy timeout passes.
    @_disfavoredOverload
    @inlinable
    public func write<T>(
        priority: TurnPriority? = nil,
        whileSuspended: WhileSuspended? = nil,
        file: StaticString = #fileID,
        line: UInt = #line,
        _ updates: (Database) throws -> T
    ) throws -> T {
        // Inlined, so that this optional has a type that the compiler knows.
        var result: T?
        try writeNow(priority, whileSuspended, file, line) { db in result = try updates(db) }
        return result!
    }

    @usableFromInline
    func writeNow(
        _ priority: TurnPriority?,
        _ whileSuspended: WhileSuspended?,
        _ file: StaticString,
        _ line: UInt,
        _ updates: (Database) throws -> Void
    ) throws {
        let site = CallSite(file, line)
        let write = blockingWrite(site, whileSuspended, priority)
        guard let trace = tracing.current?.follower.begin(at: site) else {
            return try onWriter(write, refuse: { throw $0 }) { db in try transaction(db) { try updates(db) } }
        }
        try trace.following {
            try onWriter(write, refuse: { throw $0 }) { db in
                try transaction(db) {
                    trace.didBegin()
                    try updates(db)
                }
            }
        }
    }

    /// Runs `updates` in a transaction, which is committed unless `updates` throws.
    ///
    /// Asynchronous writes that wait at the same time share a transaction (<doc:WritesAndCheckpoints#Shared-commits>). `updates` runs once
    /// at most, also if that transaction cannot be committed: then all writes that had run in it fail.
    ///
    /// - Parameters:
    ///   - priority: how urgent the write is; nil, the default: as ``Options/priority`` says.
    ///   - sharesCommit: whether `updates` may run in a transaction with other asynchronous writes; nil, the default: as
    ///     ``Options/sharesCommits`` says.
    ///   - whileSuspended: what the write does while the database is suspended; nil, the default: as
    ///     ``Options/whileSuspended`` says.
    ///   - file: the file of the call, for errors of other processes and for `status`.
    ///   - line: the line of the call.
    ///   - updates: writes to the database.
    /// - throws: what `updates` throws; `CancellationError`; `SQLITE_BUSY`, with the name of the lock's owner, when the busy
    ///   timeout passes; `SQLITE_ABORT_ROLLBACK`, with the line of code, when another write has ended the transaction that they shared.
    @inlinable
    public func write<T: Sendable>(
        priority: TurnPriority? = nil,
        sharesCommit: Bool? = nil,
        whileSuspended: WhileSuspended? = nil,
        file: StaticString = #fileID,
        line: UInt = #line,
        _ updates: @Sendable (Database) throws -> T
    ) async throws -> T {
        // `updates` has ended when this is read.
        nonisolated(unsafe) var result: T?
        try await writeNow(priority, sharesCommit, whileSuspended, file, line) { db in result = try updates(db) }
        return result!
    }

    @usableFromInline
    func writeNow(
        _ priority: TurnPriority?,
        _ sharesCommit: Bool?,
        _ whileSuspended: WhileSuspended?,
        _ file: StaticString,
        _ line: UInt,
        _ updates: @Sendable (Database) throws -> Void
    ) async throws {
        let site = CallSite(file, line)
        let write = waitingWrite(site, whileSuspended, priority)
        let sharesCommit = sharesCommit ?? options.sharesCommits
        guard let trace = tracing.current?.follower.begin(at: site) else {
            return try await self.write(write, site, sharesCommit, updates)
        }
        try await trace.following {
            try await self.write(write, site, sharesCommit) { db in
                trace.didBegin()
                try updates(db)
            }
        }
    }

    private func write(
        _ write: Write,
        _ site: CallSite,
        _ sharesCommit: Bool,
        _ updates: @Sendable (Database) throws -> Void
    ) async throws {
        if sharesCommit { return try await onWriterSharing(write, at: site, updates) }
        try await onWriter(write) { db in try self.transaction(db) { try updates(db) } }
    }

    /// Schedules a transaction, and returns immediately.
    ///
    /// - Parameters:
    ///   - priority: how urgent the write is among those that wait for the turn; nil, the default: as ``Options/priority`` says.
    ///   - whileSuspended: what the write does while the database is suspended; nil, the default: as
    ///     ``Options/whileSuspended`` says.
    ///   - file: the file of the call, for errors of other processes and for `status`.
    ///   - line: the line of the call.
    ///   - updates: writes to the database.
    ///   - completion: called with the result on the writer connection. Later writes of this participant wait for it. After a
    ///     commit, the turn may already have been released.
    public func asyncWrite<T>(
        priority: TurnPriority? = nil,
        whileSuspended: WhileSuspended? = nil,
        file: StaticString = #fileID,
        line: UInt = #line,
        _ updates: @escaping @Sendable (Database) throws -> T,
        completion: @escaping @Sendable (Database, Result<T, any Error>) -> Void
    ) {
        let write = waitingWrite(CallSite(file, line), whileSuspended, priority)
        onWriterLater(write, failed: { db, error in completion(db, .failure(error)) }) { db in
            let result: Result<T, any Error>
            do {
                result = .success(try self.writer.namingObstacles { try self.transaction(db, updates) })
            } catch {
                if self.writer.hasFailedToBegin, self.gate.isObstacle(error) { throw Refusal.turnedBack }
                result = .failure(self.interruption(by: error)?.error ?? error)
            }
            // The completion may write.
            self.gate.runningContinues()
            self.gate.abortIfUnprotected()
            completion(db, result)
        }
    }

    /// Runs `updates` while holding the turn, without a transaction around it. Each statement is a transaction of its own, unless
    /// `updates` opens one.
    public func writeWithoutTransaction<T>(
        priority: TurnPriority? = nil,
        whileSuspended: WhileSuspended? = nil,
        file: StaticString = #fileID,
        line: UInt = #line,
        _ updates: (Database) throws -> T
    ) rethrows -> T {
        try onWriterWithoutTransaction(blockingWrite(CallSite(file, line), whileSuspended, priority), updates)
    }

    /// Runs `updates` while holding the turn, without a transaction around it. Each statement is a transaction of its own, unless
    /// `updates` opens one.
    public func writeWithoutTransaction<T: Sendable>(
        priority: TurnPriority? = nil,
        whileSuspended: WhileSuspended? = nil,
        file: StaticString = #fileID,
        line: UInt = #line,
        _ updates: @Sendable (Database) throws -> T
    ) async throws -> T {
        try await onWriter(waitingWrite(CallSite(file, line), whileSuspended, priority)) { db in
            try self.withoutTransaction(db, updates)
        }
    }

    /// Runs `updates` without a transaction and with the turn, after all reads of this participant have ended and before new ones
    /// begin.
    public func barrierWriteWithoutTransaction<T>(
        priority: TurnPriority? = nil,
        whileSuspended: WhileSuspended? = nil,
        file: StaticString = #fileID,
        line: UInt = #line,
        _ updates: (Database) throws -> T
    ) throws -> T {
        try onWriterAlone(blockingWrite(CallSite(file, line), whileSuspended, priority), updates)
    }

    /// Runs `updates` without a transaction and with the turn, after all reads of this participant have ended and before new ones
    /// begin.
    public func barrierWriteWithoutTransaction<T: Sendable>(
        priority: TurnPriority? = nil,
        whileSuspended: WhileSuspended? = nil,
        file: StaticString = #fileID,
        line: UInt = #line,
        _ updates: @Sendable (Database) throws -> T
    ) async throws -> T {
        try await onWriterAlone(waitingWrite(CallSite(file, line), whileSuspended, priority), updates)
    }

    /// Schedules `updates` without a transaction, and returns immediately.
    public func asyncWriteWithoutTransaction(
        priority: TurnPriority? = nil,
        file: StaticString = #fileID,
        line: UInt = #line,
        _ updates: @escaping @Sendable (Database) -> Void
    ) {
        // The write waits while the database is suspended, because a failure could not be reported.
        onWriterLater(waitingWrite(CallSite(file, line), .wait, priority)) { db in self.withoutTransaction(db, updates)
        }
    }

    /// Runs `updates` without a transaction. It can be called inside another write to this database.
    public func unsafeReentrantWrite<T>(
        whileSuspended: WhileSuspended? = nil,
        file: StaticString = #fileID,
        line: UInt = #line,
        _ updates: (Database) throws -> T
    ) rethrows -> T {
        try onWriterReentrantly(blockingWrite(CallSite(file, line), whileSuspended), updates)
    }

    /// Adds a transaction observer, without acquiring the turn.
    ///
    /// The observer is notified of each commit of this participant. Commits of other participants are combined, and reported when
    /// the writer connection is idle, by `databaseDidChange()`, without an event, and `databaseDidCommit(_:)`.
    public func add(
        transactionObserver: some TransactionObserver,
        extent: Database.TransactionObservationExtent = .observerLifetime
    ) {
        guard isInOwnProcess else { return }
        observatory.observeOnWriterEventually()
        writer.add(transactionObserver, extent)
    }

    /// Removes a transaction observer, without acquiring the turn.
    public func remove(transactionObserver: some TransactionObserver) {
        writer.remove(transactionObserver)
    }
}
