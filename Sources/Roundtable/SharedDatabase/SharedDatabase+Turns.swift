import Dispatch
import GRDB
import RoundtableKernel
import Synchronization

/// How all writes reach the writer connection: through the gate, on its queue, marked as writing, with the turn.
///
/// What is generic keeps the result, and hands a closure without one on: code that is generic for clients in other modules is not
/// specialized for their types, and asks Swift's runtime for metadata in each function that the result passes.
extension SharedDatabase {
    /// - parameter refuse: called instead of `body` when it cannot be run.
    func onWriter<T>(
        _ write: Write,
        refuse: (any Error) throws -> T,
        _ body: (Database) throws -> T
    ) rethrows -> T {
        guard isInOwnProcess else { return try refuse(forkedError) }
        var result: T?
        while true {
            switch try attempt(write, { result = try body($0) }) {
            case .done: return result!
            case .failed(let error): return try refuse(error)
            case .turnedBack: break
            }
            guard write.waits else { return try refuse(DatabaseError.suspended(path)) }
            gate.waitUntilOpen()
        }
    }

    /// A write without a transaction, where a refusal cannot be thrown but by a statement of `updates`.
    func onWriterWithoutTransaction<T>(_ write: Write, _ updates: (Database) throws -> T) rethrows -> T {
        try onWriter(write, refuse: { try failingAccess($0, updates) }) { try withoutTransaction($0, updates) }
    }

    /// A cancelled task does not wait for its turn.
    func onWriter<T: Sendable>(_ write: Write, _ body: @Sendable (Database) throws -> T) async throws -> T {
        try checkProcess()
        while true {
            let (outcome, result) = try await attempt(write, body)
            if try outcome.isDone { return result! }
            guard write.waits else { throw DatabaseError.suspended(path) }
            try await gate.waitUntilOpen()
        }
    }

    /// While no read of this participant runs. Reads go on while it waits for the gate.
    func onWriterAlone<T>(_ write: Write, _ body: (Database) throws -> T) throws -> T {
        try checkProcess()
        var result: T?
        while true {
            if !gate.isClosed, try readers.barrier({ try attempt(write, { result = try body($0) }) }).isDone {
                return result!
            }
            guard write.waits else { throw DatabaseError.suspended(path) }
            gate.waitUntilOpen()
        }
    }

    /// While no read of this participant runs. Reads go on while it waits for the gate.
    func onWriterAlone<T: Sendable>(_ write: Write, _ body: @Sendable (Database) throws -> T) async throws -> T {
        try checkProcess()
        while true {
            if !gate.isClosed {
                let (outcome, result) = try await readers.barrier { try await attempt(write, body) }
                if try outcome.isDone { return result! }
            }
            guard write.waits else { throw DatabaseError.suspended(path) }
            try await gate.waitUntilOpen()
        }
    }

    /// Returns at once.
    ///
    /// - Parameters:
    ///   - failed: called when the database is suspended, and the write is not to wait.
    ///   - body: throws ``NotBegun`` and nothing else.
    func onWriterLater(
        _ write: Write,
        failed: @escaping @Sendable (Database, any Error) -> Void = { _, _ in },
        _ body: @escaping @Sendable (Database) throws -> Void
    ) {
        guard isInOwnProcess else { return failingAccess(forkedError) { failed($0, forkedError) } }
        attemptLater(write, body) { [self] error in
            guard error == nil, write.waits else {
                let error = error ?? DatabaseError.suspended(path)
                return failingAccess(error) { failed($0, error) }
            }
            whenOpen { [self] in onWriterLater(write, failed: failed, body) }
        }
    }

    /// Calls `body` when the gate is open, at once or on a thread of the system.
    func whenOpen(_ body: @escaping @Sendable () -> Void) {
        let waiter = gate.onChange { DispatchQueue.global().async(execute: body) }
        if !gate.isClosed, gate.cancel(waiter) { body() }
    }

    func onWriterReentrantly<T>(_ write: Write, _ body: (Database) throws -> T) rethrows -> T {
        // Inside a write, the turn is had already.
        if isInOwnProcess, Access.isWriting(self) { return try writer.queue.unsafeReentrantWrite(body) }
        return try onWriterWithoutTransaction(write, body)
    }

    /// A write transaction. On the writer's queue, with the turn.
    func transaction<T>(_ db: Database, _ updates: (Database) throws -> T) throws -> T {
        var result: T?
        try transaction(db) { result = try updates(db) }
        return result!
    }

    func transaction(_ db: Database, _ updates: () throws -> Void) throws {
        try writer.transaction(db) {
            try writer.forgetSchemaIfChanged(db)
            try writer.admitWrite()
            writer.prepareHistory(db)
            try updates()
        }
    }

    /// What a write without a transaction begins with.
    func withoutTransaction<T>(_ db: Database, _ body: (Database) throws -> T) rethrows -> T {
        // What keeps this from looking, `body` meets too, and tells.
        writer.lookAtHistory(db)
        return try body(db)
    }
}

extension SharedDatabase {
    /// What came of going to the writer.
    enum Attempt {
        case done
        /// The gate was closed before anything was done.
        case turnedBack
        /// The connection could not be opened again.
        case failed(any Error)

        /// false when it was turned back.
        var isDone: Bool {
            get throws {
                switch self {
                case .done: return true
                case .turnedBack: return false
                case .failed(let error): throw error
                }
            }
        }
    }

    private func attempt(_ write: Write, _ body: (Database) throws -> Void) rethrows -> Attempt {
        guard let visit = gate.enter(.write, at: write.site, isRunning: false) else { return .turnedBack }
        let queue: DatabaseQueue
        do { queue = try writer.openedQueue() } catch { return leaveWithoutConnection(visit, error) }
        return try queue.inDatabase { db in try writing(db, write, visit) { try body(db) } }
    }

    /// - returns: with the result of `body` if it is done.
    private func attempt<T: Sendable>(
        _ write: Write,
        _ body: @Sendable (Database) throws -> T
    ) async throws -> (Attempt, T?) {
        guard let visit = gate.enter(.write, at: write.site, isRunning: false) else { return (.turnedBack, nil) }
        let cancellation = WaitCancellation()
        let hasBegun = Atomic(false)
        // Cancelled before it ran, it has not left.
        defer { if !hasBegun.load(ordering: .relaxed) { gate.leave(visit) } }
        let queue: DatabaseQueue
        do { queue = try writer.openedQueue() } catch { return (leaveWithoutConnection(visit, error), nil) }
        return try await withTaskCancellationHandler {
            try await queue.writeWithoutTransaction { db in
                hasBegun.store(true, ordering: .relaxed)
                var result: T?
                let outcome = try self.writing(db, write, visit, cancellation: cancellation) {
                    try Task.checkCancellation()
                    result = try body(db)
                }
                return (outcome, result)
            }
        } onCancel: {
            cancellation.cancel()
        }
    }

    /// - parameter turnedBack: called instead of `body`; with an error when the connection could not be opened again.
    func attemptLater(
        _ write: Write,
        _ body: @escaping @Sendable (Database) throws -> Void,
        turnedBack: @escaping @Sendable ((any Error)?) -> Void
    ) {
        guard let visit = gate.enter(.write, at: write.site, isRunning: false) else { return turnedBack(nil) }
        let queue: DatabaseQueue
        do {
            queue = try writer.openedQueue()
        } catch {
            if case .failed(let error) = leaveWithoutConnection(visit, error) { return turnedBack(error) }
            return turnedBack(nil)
        }
        queue.asyncWriteWithoutTransaction { db in
            let attempt = try? self.writing(db, write, visit) { try body(db) }
            if case .done = attempt { return }
            turnedBack(nil)
        }
    }

    /// Waits for the connection no longer than until the deadline of `write`.
    ///
    /// - returns: nil when that has passed before `body` could begin.
    func attemptUntilDeadline(
        _ write: Write,
        _ body: @escaping @Sendable (Database) throws -> Void
    ) throws -> Attempt? {
        guard let visit = gate.enter(.write, at: write.site, isRunning: false) else { return .turnedBack }
        let queue: DatabaseQueue
        do { queue = try writer.openedQueue() } catch { return leaveWithoutConnection(visit, error) }
        let patience = PatientAccess<Attempt>()
        queue.asyncWriteWithoutTransaction { db in
            patience.run { try self.writing(db, write, visit) { try body(db) } }
        }
        if let outcome = try patience.wait(until: write.deadline ?? .max) { return outcome }
        gate.leave(visit)
        return nil
    }

    /// The connection could not be opened again: perhaps because the gate was closed while somebody held a lock that it needs.
    private func leaveWithoutConnection(_ visit: UInt64, _ error: any Error) -> Attempt {
        gate.leave(visit)
        return error is NotBegun ? .turnedBack : .failed(error)
    }

    private func writing(
        _ db: Database,
        _ write: Write,
        _ visit: UInt64,
        cancellation: WaitCancellation? = nil,
        _ body: () throws -> Void
    ) rethrows -> Attempt {
        guard let started = gate.start(visit) else {
            gate.leave(visit)
            return .turnedBack
        }
        var interruption: SuspensionGate.Interruption?
        writer.beginAccess()
        // Not one whose transaction the closure leaves open (rule W3).
        defer { writer.leaveGate(visit, db, interruption) }
        do {
            let hasRun = try Access.with(self, reader: nil) {
                // The turn is given up by then.
                defer { longReads.look(db) }
                return try writer.withTurn(
                    db,
                    at: write.site,
                    since: started,
                    until: write.deadline,
                    cancellation: cancellation,
                    body
                )
            }
            return hasRun ? .done : .turnedBack
        } catch let error as NotBegun {
            if error.isForGate || gate.isClosed { return .turnedBack }
            throw error.reason
        } catch {
            guard let ended = self.interruption(by: error) else {
                // The closure has an error of its own for it.
                if gate.isDoomed, !writer.hasCommitted { interruption = .rolledBack }
                throw error
            }
            interruption = ended.how
            throw ended.error
        }
    }

    /// How the gate has ended a write, and its error; nil when it ended because of something else. On the writer's queue, inside of the
    /// gate.
    func interruption(by error: any Error) -> (error: DatabaseError, how: SuspensionGate.Interruption)? {
        guard let error = error as? DatabaseError, let access = gate.running else { return nil }
        let how: SuspensionGate.Interruption = writer.hasCommitted ? .partly : .rolledBack
        switch error.resultCode {
        case .SQLITE_INTERRUPT, .SQLITE_ABORT:
            guard gate.isDoomed else { return nil }
        case .SQLITE_BUSY:
            guard gate.hasGivenUp.load(ordering: .acquiring) else { return nil }
        default: return nil
        }
        return (error.isSuspension ? error : .interrupted(path, access, how, sql: error.sql), how)
    }
}

extension SharedDatabase {
    /// A write, before it is made.
    struct Write {
        let site: CallSite?
        /// For the gate to open; else it fails.
        let waits: Bool
        /// Until when it waits for the connection, the turn and SQLite's lock; nil for the busy timeout.
        var deadline: Nanoseconds?
    }

    /// A write of blocking code.
    func blockingWrite(_ site: CallSite? = nil, _ whileSuspended: WhileSuspended? = nil) -> Write {
        Write(site: site, waits: (whileSuspended ?? self.whileSuspended ?? .fail) == .wait)
    }

    /// A write of code that can wait.
    func waitingWrite(_ site: CallSite? = nil, _ whileSuspended: WhileSuspended? = nil) -> Write {
        Write(site: site, waits: (whileSuspended ?? self.whileSuspended ?? .wait) == .wait)
    }
}
