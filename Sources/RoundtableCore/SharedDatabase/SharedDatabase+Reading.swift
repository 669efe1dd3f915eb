import Dispatch
import GRDB
import RoundtableKernel

/// These are the functions of GRDB's `DatabaseReader` with one difference: they record the line of code that called them. Reports
/// about reads that hold up checkpoints name this line (see <doc:WritesAndCheckpoints#Watch-the-WAL>). Code that calls `some DatabaseReader`
/// reaches the functions that do not record it.
extension SharedDatabase {
    /// Reads a snapshot of the database. The read never waits for a writer. It waits when all reader connections are in use.
    ///
    /// - throws: what `value` throws; `SQLITE_MISUSE` after `close()`.
    public func read<T>(
        file: StaticString = #fileID,
        line: UInt = #line,
        _ value: (Database) throws -> T
    ) throws -> T {
        try reading(at: CallSite(file, line), value)
    }

    /// Reads a snapshot of the database. The read never waits for a writer. It waits when all reader connections are in use.
    ///
    /// - throws: what `value` throws; `CancellationError`; `SQLITE_MISUSE` after `close()`.
    public func read<T: Sendable>(
        file: StaticString = #fileID,
        line: UInt = #line,
        _ value: @Sendable (Database) throws -> T
    ) async throws -> T {
        try await reading(at: CallSite(file, line), value)
    }

    /// Schedules a read, and returns immediately.
    public func asyncRead(
        file: StaticString = #fileID,
        line: UInt = #line,
        _ value: @escaping @Sendable (Result<Database, any Error>) -> Void
    ) {
        readingLater(at: CallSite(file, line), value)
    }

    /// Reads without a transaction: two statements may see two states of the database.
    public func unsafeRead<T>(
        file: StaticString = #fileID,
        line: UInt = #line,
        _ value: (Database) throws -> T
    ) throws -> T {
        try reading(at: CallSite(file, line), isolated: false, value)
    }

    /// Reads without a transaction: two statements may see two states of the database.
    public func unsafeRead<T: Sendable>(
        file: StaticString = #fileID,
        line: UInt = #line,
        _ value: @Sendable (Database) throws -> T
    ) async throws -> T {
        try await reading(at: CallSite(file, line), isolated: false, value)
    }

    /// Schedules a read without a transaction, and returns immediately.
    public func asyncUnsafeRead(
        file: StaticString = #fileID,
        line: UInt = #line,
        _ value: @escaping @Sendable (Result<Database, any Error>) -> Void
    ) {
        readingUnsafelyLater(at: CallSite(file, line), value)
    }

    /// Reads without a transaction. Inside another access to this database, it uses the connection of that access.
    public func unsafeReentrantRead<T>(
        file: StaticString = #fileID,
        line: UInt = #line,
        _ value: (Database) throws -> T
    ) throws -> T {
        try readingReentrantly(at: CallSite(file, line), value)
    }
}

// MARK: - Implementation

extension SharedDatabase {
    /// The error of a read, with its cause if that is known: a file that was lost, a full or failing disk, a lock.
    private func named(_ error: any Error) -> any Error {
        let error = files.explained(error)
        return (error as? DatabaseError)?.namingFile(path) ?? error
    }

    /// - parameter isolated: whether `value` reads a snapshot, and is measured. Otherwise two statements may see two states.
    func reading<T>(at site: CallSite?, isolated: Bool = true, _ value: (Database) throws -> T) throws -> T {
        try checkProcess()
        precondition(!isolated || !Access.isReading(self), "Database methods are not reentrant.")
        let measured = isolated ? metering.beginRead() : nil
        var failure: (any Error)?
        defer { measured?.end(failure) }
        do {
            return try readers.withReader(at: site, insideWrite: Access.isWriting(self)) { reader in
                try reader.queue.inDatabase { db in
                    try Access.with(self, reader: reader) {
                        if isolated { return try reader.isolated(db, value) }
                        try reader.forgetSchemaIfChanged(db)
                        return try value(db)
                    }
                }
            }
        } catch {
            failure = error
            throw named(error)
        }
    }

    func reading<T: Sendable>(
        at site: CallSite?,
        isolated: Bool = true,
        _ value: @Sendable (Database) throws -> T
    ) async throws -> T {
        try checkProcess()
        let measured = isolated ? metering.beginRead() : nil
        var failure: (any Error)?
        defer { measured?.end(failure) }
        do {
            return try await readers.withReader(at: site) { reader, giveBack in
                try await reader.queue.unsafeRead { db in
                    defer { giveBack() }
                    return try Access.with(self, reader: reader) {
                        if isolated { return try reader.isolated(db, value) }
                        try reader.forgetSchemaIfChanged(db)
                        return try value(db)
                    }
                }
            }
        } catch {
            failure = error
            throw named(error)
        }
    }

    func readingLater(at site: CallSite?, _ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        asyncReading(at: site, value) { reader, db in
            do {
                try reader.begin(db)
            } catch {
                value(.failure(self.named(error)))
                return
            }
            value(.success(db))
            // The read wrote nothing, so a failure to end it is not reported.
            try? reader.end(db)
        }
    }

    func readingUnsafelyLater(
        at site: CallSite?,
        _ value: @escaping @Sendable (Result<Database, any Error>) -> Void
    ) {
        asyncReading(at: site, value) { reader, db in
            value(Result { try reader.forgetSchemaIfChanged(db) }.map { db })
        }
    }

    func readingReentrantly<T>(at site: CallSite?, _ value: (Database) throws -> T) throws -> T {
        switch Access.current(to: self) {
        case let access? where access.reader != nil:
            return try access.reader!.queue.unsafeReentrantRead(value)
        case .some:
            return try writer.queue.unsafeReentrantRead(value)
        case nil:
            return try reading(at: site, isolated: false, value)
        }
    }

    /// Borrows a reader without blocking, runs `body` on its queue, and returns the reader to the pool.
    private func asyncReading(
        at site: CallSite?,
        _ value: @escaping @Sendable (Result<Database, any Error>) -> Void,
        _ body: @escaping @Sendable (ReaderConnection, Database) -> Void
    ) {
        guard isInOwnProcess else { return value(.failure(forkedError)) }
        // Opening a connection takes time, so it does not happen on the caller's thread.
        DispatchQueue.global(qos: configuration.readQoS.qosClass).async { [readers] in
            readers.take(at: site) { result in
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
