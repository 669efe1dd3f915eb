import Dispatch
import GRDB
import RoundtableKernel

/// All that writes takes the turn first (rule W2), and gives it up when its closure has returned.
///
/// The place in the code that is told to waiting processes is the caller's where it calls a `SharedDatabase`, and
/// unknown where it calls `some DatabaseWriter`.
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
        return try writer.queue.inDatabase { db in
            try writing(db, at: CallSite(file, line)) { try transaction(db, updates) }
        }
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
        try checkProcess()
        return try await cancellable { cancellation in
            try await writer.queue.writeWithoutTransaction { db in
                try self.writing(db, at: CallSite(file, line), cancellation: cancellation) {
                    try Task.checkCancellation()
                    return try self.transaction(db, updates)
                }
            }
        }
    }

    /// Schedules a transaction, and returns at once.
    public func asyncWrite<T>(
        file: StaticString = #fileID,
        line: UInt = #line,
        _ updates: @escaping @Sendable (Database) throws -> T,
        completion: @escaping @Sendable (Database, Result<T, any Error>) -> Void
    ) {
        asyncWriting(at: CallSite(file, line)) { db in
            completion(db, Result { try self.transaction(db, updates) })
        }
    }

    /// Runs `updates` while having the turn, without a transaction around it: each statement is one, or `updates` opens
    /// its own.
    @_disfavoredOverload
    public func writeWithoutTransaction<T>(
        file: StaticString,
        line: UInt,
        _ updates: (Database) throws -> T
    ) rethrows -> T {
        guard isInOwnProcess else { return try failingAccess(updates) }
        return try writer.queue.inDatabase { db in
            try writing(db, at: CallSite(file, line)) { try updates(db) }
        }
    }

    /// Adds a transaction observer. Takes no turn.
    public func add(
        transactionObserver: some TransactionObserver,
        extent: Database.TransactionObservationExtent = .observerLifetime
    ) {
        writer.queue.add(transactionObserver: transactionObserver, extent: extent)
    }

    /// Removes a transaction observer. Takes no turn.
    public func remove(transactionObserver: some TransactionObserver) {
        writer.queue.remove(transactionObserver: transactionObserver)
    }
}

extension SharedDatabase: DatabaseWriter {
    @_disfavoredOverload
    public func writeWithoutTransaction<T>(_ updates: (Database) throws -> T) rethrows -> T {
        guard isInOwnProcess else { return try failingAccess(updates) }
        return try writer.queue.inDatabase { db in
            try writing(db, at: nil) { try updates(db) }
        }
    }

    public func writeWithoutTransaction<T: Sendable>(
        _ updates: @Sendable (Database) throws -> T
    ) async throws -> T {
        try checkProcess()
        return try await cancellable { cancellation in
            try await writer.queue.writeWithoutTransaction { db in
                try self.writing(db, at: nil, cancellation: cancellation) {
                    try Task.checkCancellation()
                    return try updates(db)
                }
            }
        }
    }

    @_disfavoredOverload
    public func barrierWriteWithoutTransaction<T>(_ updates: (Database) throws -> T) throws -> T {
        try checkProcess()
        return try readers.barrier { try writeWithoutTransaction(updates) }
    }

    public func barrierWriteWithoutTransaction<T: Sendable>(
        _ updates: @Sendable (Database) throws -> T
    ) async throws -> T {
        try checkProcess()
        return try await readers.barrier { try await self.writeWithoutTransaction(updates) }
    }

    public func asyncBarrierWriteWithoutTransaction(
        _ updates: @escaping @Sendable (Result<Database, any Error>) -> Void
    ) {
        guard isInOwnProcess else { return updates(.failure(forkedError)) }
        readers.barrier { result in
            switch result {
            case .failure(let error):
                updates(.failure(error))
            case .success(let end):
                self.asyncWriting(at: nil) { db in
                    updates(.success(db))
                    end()
                }
            }
        }
    }

    public func asyncWriteWithoutTransaction(_ updates: @escaping @Sendable (Database) -> Void) {
        asyncWriting(at: nil, updates)
    }

    public func unsafeReentrantWrite<T>(_ updates: (Database) throws -> T) rethrows -> T {
        guard isInOwnProcess else { return try failingAccess(updates) }
        if Access.isWriting(self) { return try writer.queue.unsafeReentrantWrite(updates) }
        return try writer.queue.unsafeReentrantWrite { db in
            try writing(db, at: nil) { try updates(db) }
        }
    }

    public func spawnConcurrentRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        precondition(Access.isWriting(self), "spawnConcurrentRead must be called from a write access.")
        writer.queue.unsafeReentrantWrite { db in
            precondition(!db.isInsideTransaction, "spawnConcurrentRead must not be called from inside a transaction.")
        }
        let reader: ReaderConnection
        do {
            reader = try readers.take()
        } catch {
            return value(.failure(error))
        }
        // The writer goes on once the reader's snapshot is established.
        let isEstablished = DispatchSemaphore(value: 0)
        reader.queue.asyncUnsafeRead { [readers] result in
            defer { readers.give(reader) }
            do {
                let db = try result.get()
                try reader.begin(db)
                isEstablished.signal()
                Access.with(self, reader: reader) { value(.success(db)) }
                // Nothing was written: there is no one to tell that the end of the read failed.
                try? reader.end(db)
            } catch {
                isEstablished.signal()
                value(.failure(error))
            }
        }
        isEstablished.wait()
    }
}

// MARK: - Taking turns

extension SharedDatabase {
    /// Marks the thread as writing, and takes the turn. On the writer's queue.
    private func writing<T>(
        _ db: Database,
        at site: CallSite?,
        cancellation: WaitCancellation? = nil,
        _ body: () throws -> T
    ) rethrows -> T {
        try Access.with(self, reader: nil) {
            try writer.withTurn(db, at: site, cancellation: cancellation, body)
        }
    }

    private func transaction<T>(_ db: Database, _ updates: (Database) throws -> T) throws -> T {
        let result = try writer.transaction(db) {
            try writer.forgetSchemaIfChanged(db)
            return try updates(db)
        }
        writer.noteOwnCommit(db)
        return result
    }

    private func asyncWriting(at site: CallSite?, _ body: @escaping @Sendable (Database) -> Void) {
        guard isInOwnProcess else { return failingAccess(body) }
        writer.queue.asyncWriteWithoutTransaction { db in
            self.writing(db, at: site) { body(db) }
        }
    }

    /// A cancelled task does not wait for its turn.
    private func cancellable<T: Sendable>(_ body: (WaitCancellation) async throws -> T) async throws -> T {
        let cancellation = WaitCancellation()
        return try await withTaskCancellationHandler {
            try await body(cancellation)
        } onCancel: {
            cancellation.cancel()
        }
    }
}
