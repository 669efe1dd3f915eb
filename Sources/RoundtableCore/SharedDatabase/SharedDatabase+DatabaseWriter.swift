import Dispatch
import GRDB

/// GRDB's requirements, which generic code calls. They do not record the line of code that called them.
extension SharedDatabase: DatabaseWriter {
    @_disfavoredOverload
    public func writeWithoutTransaction<T>(_ updates: (Database) throws -> T) rethrows -> T {
        try onWriterWithoutTransaction(blockingWrite(), updates)
    }

    @_disfavoredOverload
    public func writeWithoutTransaction<T: Sendable>(
        _ updates: @Sendable (Database) throws -> T
    ) async throws -> T {
        try await onWriter(waitingWrite()) { db in try self.withoutTransaction(db, updates) }
    }

    @_disfavoredOverload
    public func barrierWriteWithoutTransaction<T>(_ updates: (Database) throws -> T) throws -> T {
        try onWriterAlone(blockingWrite(), updates)
    }

    @_disfavoredOverload
    public func barrierWriteWithoutTransaction<T: Sendable>(
        _ updates: @Sendable (Database) throws -> T
    ) async throws -> T {
        try await onWriterAlone(waitingWrite(), updates)
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
                self.attemptLater(self.waitingWrite()) { db in
                    defer { end() }
                    self.withoutTransaction(db) { updates(.success($0)) }
                } refused: { refusal in
                    end()
                    if case .failed(let error) = refusal { return updates(.failure(error)) }
                    self.whenOpen { self.asyncBarrierWriteWithoutTransaction(updates) }
                }
            }
        }
    }

    @_disfavoredOverload
    public func asyncWriteWithoutTransaction(_ updates: @escaping @Sendable (Database) -> Void) {
        onWriterLater(waitingWrite()) { db in self.withoutTransaction(db, updates) }
    }

    @_disfavoredOverload
    public func unsafeReentrantWrite<T>(_ updates: (Database) throws -> T) rethrows -> T {
        // `DatabaseRegionObservation` adds its observer by this function.
        if isInOwnProcess { observatory.observeOnWriterEventually() }
        return try onWriterReentrantly(blockingWrite(), updates)
    }

    public func spawnConcurrentRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        precondition(Access.isWriting(self), "spawnConcurrentRead must be called from a write access.")
        writer.queue.unsafeReentrantWrite { db in
            precondition(!db.isInsideTransaction, "spawnConcurrentRead must not be called from inside a transaction.")
        }
        let reader: ReaderConnection
        do {
            reader = try readers.takeInsideWrite()
        } catch {
            return value(.failure(error))
        }
        // The writer continues once the reader's snapshot is established.
        let isEstablished = DispatchSemaphore(value: 0)
        reader.queue.asyncUnsafeRead { [readers] result in
            defer { readers.give(reader) }
            do {
                let db = try result.get()
                try reader.begin(db)
                isEstablished.signal()
                Access.with(self, reader: reader) { value(.success(db)) }
                // The read wrote nothing, so a failure to end it is not reported.
                try? reader.end(db)
            } catch {
                isEstablished.signal()
                value(.failure(error))
            }
        }
        isEstablished.wait()
    }
}
