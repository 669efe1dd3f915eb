import Dispatch
import GRDB

extension SharedDatabase: DatabaseReader {
    /// ``Options/configuration``, as it was given.
    public var configuration: Configuration {
        var configuration = givenConfiguration
        configuration.readonly = role == .readOnly
        return configuration
    }

    /// Interrupts the statements that run, on all connections. See
    /// [`sqlite3_interrupt`](https://www.sqlite.org/c3ref/interrupt.html).
    public func interrupt() {
        guard isInOwnProcess else { return }
        writer.interrupt()
        readers.interrupt()
    }

    /// Reads a snapshot of the database. Never waits for a writer; waits when all reader connections are in use.
    ///
    /// - throws: what `value` throws; `SQLITE_MISUSE` after `close()`.
    @_disfavoredOverload
    public func read<T>(_ value: (Database) throws -> T) throws -> T {
        try checkProcess()
        precondition(!Access.isReading(self), "Database methods are not reentrant.")
        return try readers.withReader(insideWrite: Access.isWriting(self)) { reader in
            try reader.queue.inDatabase { db in
                try Access.with(self, reader: reader) { try reader.isolated(db, value) }
            }
        }
    }

    /// Reads a snapshot of the database. Never waits for a writer; waits when all reader connections are in use.
    ///
    /// - throws: what `value` throws; `CancellationError`; `SQLITE_MISUSE` after `close()`.
    public func read<T: Sendable>(_ value: @Sendable (Database) throws -> T) async throws -> T {
        try checkProcess()
        return try await readers.withReader { reader, giveBack in
            try await reader.queue.unsafeRead { db in
                defer { giveBack() }
                return try Access.with(self, reader: reader) { try reader.isolated(db, value) }
            }
        }
    }

    /// Schedules a read, and returns at once.
    public func asyncRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        asyncReading(value) { reader, db in
            do {
                try reader.begin(db)
            } catch {
                value(.failure(error))
                return
            }
            value(.success(db))
            // Nothing was written: there is no one to tell that the end of the read failed.
            try? reader.end(db)
        }
    }

    /// Reads without a transaction: two statements may see two states of the database.
    @_disfavoredOverload
    public func unsafeRead<T>(_ value: (Database) throws -> T) throws -> T {
        try checkProcess()
        return try readers.withReader(insideWrite: Access.isWriting(self)) { reader in
            try reader.queue.inDatabase { db in
                try Access.with(self, reader: reader) {
                    try reader.forgetSchemaIfChanged(db)
                    return try value(db)
                }
            }
        }
    }

    /// Reads without a transaction: two statements may see two states of the database.
    public func unsafeRead<T: Sendable>(_ value: @Sendable (Database) throws -> T) async throws -> T {
        try checkProcess()
        return try await readers.withReader { reader, giveBack in
            try await reader.queue.unsafeRead { db in
                defer { giveBack() }
                return try Access.with(self, reader: reader) {
                    try reader.forgetSchemaIfChanged(db)
                    return try value(db)
                }
            }
        }
    }

    /// Schedules a read without a transaction, and returns at once.
    public func asyncUnsafeRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        asyncReading(value) { reader, db in
            value(Result { try reader.forgetSchemaIfChanged(db) }.map { db })
        }
    }

    /// Reads without a transaction, also from inside another access to this database, whose connection it then uses.
    public func unsafeReentrantRead<T>(_ value: (Database) throws -> T) throws -> T {
        switch Access.current(to: self) {
        case let access? where access.reader != nil:
            return try access.reader!.queue.unsafeReentrantRead(value)
        case .some:
            return try writer.queue.unsafeReentrantRead(value)
        case nil:
            return try unsafeRead(value)
        }
    }

    public func _add<Reducer: ValueReducer>(
        observation: ValueObservation<Reducer>,
        scheduling scheduler: some ValueObservationScheduler,
        onChange: @escaping @Sendable (Reducer.Value) -> Void
    ) -> AnyDatabaseCancellable {
        addObservation(observation, scheduling: scheduler, onChange: onChange)
    }

    /// Takes a reader without blocking, runs `body` on its queue, and gives it back.
    private func asyncReading(
        _ value: @escaping @Sendable (Result<Database, any Error>) -> Void,
        _ body: @escaping @Sendable (ReaderConnection, Database) -> Void
    ) {
        guard isInOwnProcess else { return value(.failure(forkedError)) }
        // Opening a connection takes time: not on the caller's thread.
        DispatchQueue.global(qos: configuration.readQoS.qosClass).async { [readers] in
            readers.take { result in
                switch result {
                case .failure(let error):
                    value(.failure(error))
                case .success(let reader):
                    reader.queue.asyncUnsafeRead { result in
                        if case .success(let db) = result {
                            Access.with(self, reader: reader) { body(reader, db) }
                        } else {
                            value(result)
                        }
                        readers.give(reader)
                    }
                }
            }
        }
    }
}
