import GRDB
import RoundtableKernel

/// The requirements of GRDB's `DatabaseReader`. A snapshot does not conform to `DatabaseSnapshotReader`, because such types never change
/// what they see.
extension SharedDatabaseSnapshot: DatabaseReader {
    public var configuration: Configuration {
        var configuration = database.configuration
        configuration.readonly = true
        return configuration
    }

    /// The path of the database file, with symbolic links resolved.
    public var path: String { database.path }

    /// Reads the snapshot's moment.
    ///
    /// - throws: what `value` throws; `SQLITE_MISUSE` after `close()`.
    @_disfavoredOverload
    public func read<T>(_ value: (Database) throws -> T) throws -> T {
        try database.checkProcess()
        let connection = try connection()
        return try connection.queue.inDatabase { db in
            try enter(db, connection)
            return try naming(on: connection) { try value(db) }
        }
    }

    /// Reads the snapshot's moment.
    ///
    /// - throws: what `value` throws; `CancellationError`; `SQLITE_MISUSE` after `close()`.
    public func read<T: Sendable>(_ value: @Sendable (Database) throws -> T) async throws -> T {
        try database.checkProcess()
        let connection = try connection()
        return try await connection.queue.unsafeRead { db in
            try enter(db, connection)
            return try naming(on: connection) { try value(db) }
        }
    }

    /// Schedules a read, and returns immediately.
    public func asyncRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        guard database.isInOwnProcess else { return value(.failure(database.forkedError)) }
        let connection: ReaderConnection
        do { connection = try self.connection() } catch { return value(.failure(error)) }
        connection.queue.asyncUnsafeRead { result in
            value(
                result.flatMap { db in
                    Result {
                        try self.enter(db, connection)
                        return db
                    }
                }
            )
        }
    }

    /// Reads the snapshot's moment, like `read`, because there is no unsafe access to a snapshot.
    @_disfavoredOverload
    public func unsafeRead<T>(_ value: (Database) throws -> T) throws -> T { try read(value) }

    /// Reads the snapshot's moment, like `read`, because there is no unsafe access to a snapshot.
    public func unsafeRead<T: Sendable>(_ value: @Sendable (Database) throws -> T) async throws -> T {
        try await read(value)
    }

    /// Schedules a read, like `asyncRead`, because there is no unsafe access to a snapshot.
    public func asyncUnsafeRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        asyncRead(value)
    }

    /// Reads the snapshot's moment, also from inside another read of it.
    public func unsafeReentrantRead<T>(_ value: (Database) throws -> T) throws -> T {
        try database.checkProcess()
        let connection = try connection()
        return try connection.queue.unsafeReentrantRead { db in
            try enter(db, connection)
            return try naming(on: connection) { try value(db) }
        }
    }

    /// Starts an observation. An observation of a snapshot reports one value, and never another, as with GRDB's snapshots. If the
    /// scheduler does not want the first value immediately, the value is fetched where it is scheduled: a scheduler of the main thread
    /// blocks that thread meanwhile.
    public func _add<Reducer: ValueReducer>(
        observation: ValueObservation<Reducer>,
        scheduling scheduler: some ValueObservationScheduler,
        onChange: @escaping @Sendable (Reducer.Value) -> Void
    ) -> AnyDatabaseCancellable {
        if scheduler.immediateInitialValue() {
            return addNow(observation, scheduler, onChange)
        }
        // GRDB's queue would begin a transaction for the observation, and end the snapshot's.
        let cancellation = WaitCancellation()
        scheduler.schedule {
            if cancellation.isCancelled { return }
            _ = self.addNow(observation, AtOnce(), onChange)
        }
        return AnyDatabaseCancellable { cancellation.cancel() }
    }

    private func addNow<Reducer: ValueReducer>(
        _ observation: ValueObservation<Reducer>,
        _ scheduler: some ValueObservationScheduler,
        _ onChange: @escaping @Sendable (Reducer.Value) -> Void
    ) -> AnyDatabaseCancellable {
        do {
            let connection = try connection()
            return try unsafeReentrantRead { _ in
                connection.queue._add(observation: observation, scheduling: scheduler, onChange: onChange)
            }
        } catch {
            return observation.failing(with: error, scheduler, onChange)
        }
    }
}

extension SharedDatabaseSnapshot {
    /// Moves to the latest commit.
    ///
    /// ``DatabaseChange/detail-swift.property`` says how much is known of each change. A commit that is made during this call may be reported
    /// twice, by this call and by the next; none is left out. Commits of this participant are reported as well: ``DatabaseChange/isOwn``.
    ///
    /// - returns: the changes that were committed since the previous moment, in commit order; empty if there were none.
    /// - throws: `SQLITE_BUSY` when one of the caller's cursors is still alive (the snapshot stays at its moment): fetch arrays, or use the
    ///   cursor inside the closure of its read. `SQLITE_MISUSE` after `close()`. After any other error the snapshot has no moment: call
    ///   this again to get all changes.
    @discardableResult
    @_disfavoredOverload
    public func advance() throws -> [DatabaseChange] {
        try database.checkProcess()
        while true {
            let connection = try connectionToAdvance()
            do {
                return try connection.queue.inDatabase { db in
                    try naming(on: connection) { try advance(db, connection) }
                }
            } catch  where hasExpired(connection) {
                // The moment that was to be left became too old meanwhile. Another connection goes to the latest commit.
            }
        }
    }

    /// Moves to the latest commit, without blocking the calling thread. Cancelling the task has an effect only while the call waits for a
    /// suspended database to be resumed.
    ///
    /// - returns: the changes that were committed since the previous moment, in commit order; empty if there were none.
    /// - throws: the errors of the synchronous function; `CancellationError` if the task is cancelled during that wait.
    @discardableResult
    public func advance() async throws -> [DatabaseChange] {
        try database.checkProcess()
        return try await database.afterParking {
            while true {
                let connection = try self.connectionToAdvance()
                do {
                    return try await withUnsafeThrowingContinuation { continuation in
                        connection.queue.asyncUnsafeRead { result in
                            continuation.resume(
                                with: result.flatMap { db in
                                    Result { try self.naming(on: connection) { try self.advance(db, connection) } }
                                }
                            )
                        }
                    }
                } catch  where self.hasExpired(connection) {
                    // As in the synchronous function.
                }
            }
        }
    }

    /// Reads the snapshot's moment, also from inside another read of it.
    public func reentrantRead<T>(_ value: (Database) throws -> T) throws -> T { try unsafeReentrantRead(value) }
}

private struct AtOnce: ValueObservationScheduler {
    func immediateInitialValue() -> Bool { true }
    func schedule(_ action: @escaping @Sendable () -> Void) { action() }
}
