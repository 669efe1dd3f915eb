import Dispatch
import GRDB
import RoundtableKernel
import Synchronization

/// All writes reach the writer connection in this way: through the gate, on its queue, marked as writing, with the turn.
///
/// Generic functions keep the result, and pass on a closure without a result. Generic code is not specialized for types of other
/// modules, so each function that passes the result would request metadata from Swift's runtime.
extension SharedDatabase {
    /// - parameter refuse: called instead of `body` when `body` cannot run.
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

    /// Runs a write without a transaction. A statement of `updates` throws the refusal, because only `updates` can throw.
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

    /// Runs `body` with the turn, while no read of this participant runs. Reads continue while it waits for the gate.
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

    /// Runs `body` with the turn, while no read of this participant runs. Reads continue while it waits for the gate.
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

    /// Schedules `body` on the writer connection, and returns at once.
    ///
    /// - Parameters:
    ///   - failed: called when `body` cannot run: after `fork`, when the connection cannot be reopened, or when the database is
    ///     suspended and the write does not wait.
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
        // The writer already holds the turn here.
        if isInOwnProcess, Access.isWriting(self) { return try writer.queue.unsafeReentrantWrite(body) }
        return try onWriterWithoutTransaction(write, body)
    }

    /// Runs a write transaction. Call it on the writer's queue, with the turn.
    package func transaction<T>(_ db: Database, _ updates: (Database) throws -> T) throws -> T {
        var result: T?
        try transaction(db) { result = try updates(db) }
        return result!
    }

    func transaction(_ db: Database, _ updates: () throws -> Void) throws {
        try writer.transaction(db) {
            try writer.forgetSchemaIfChanged(db)
            try writer.admitWrite()
            writer.prepareCompanions(db)
            try updates()
        }
    }

    /// Prepares a write without a transaction, and runs `body`.
    func withoutTransaction<T>(_ db: Database, _ body: (Database) throws -> T) rethrows -> T {
        // If this check fails, `body` fails for the same reason and reports it.
        writer.lookAtHistory(db)
        return try body(db)
    }
}

extension SharedDatabase {
    /// The outcome of an attempt to run a write.
    package enum Attempt {
        case done
        /// The gate was closed before `body` ran.
        case turnedBack
        /// The connection could not be reopened.
        case failed(any Error)

        /// false when the gate turned the write back.
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

    /// - returns: the outcome, and the result of `body` if it is done.
    private func attempt<T: Sendable>(
        _ write: Write,
        _ body: @Sendable (Database) throws -> T
    ) async throws -> (Attempt, T?) {
        guard let visit = gate.enter(.write, at: write.site, isRunning: false) else { return (.turnedBack, nil) }
        let cancellation = WaitCancellation()
        let hasBegun = Atomic(false)
        // A task that was cancelled before the closure ran has not left the gate.
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

    /// - parameter turnedBack: called instead of `body`, with an error when the connection could not be reopened.
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

    /// Runs `body` on the writer connection. It waits for the connection until the deadline of `write` at most.
    ///
    /// - returns: nil when the deadline has passed before `body` could begin.
    package func attemptUntilDeadline(
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

    /// Leaves the gate after reopening failed, possibly because another process held a lock until the gate closed.
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
        // If the closure leaves its transaction open (rule W3), the visit ends with that transaction.
        defer { writer.leaveGate(visit, db, interruption) }
        do {
            let hasRun = try Access.with(self, reader: nil) {
                // The turn is released before this runs.
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
                // The closure may have replaced the error of the abort by one of its own.
                if gate.isAborted, !writer.hasCommitted { interruption = .rolledBack }
                throw error
            }
            interruption = ended.how
            throw ended.error
        }
    }

    /// How the gate has ended a write, and the error of that; nil when the write ended for another reason. Call it on the
    /// writer's queue, inside the gate.
    func interruption(by error: any Error) -> (error: DatabaseError, how: SuspensionGate.Interruption)? {
        guard let error = error as? DatabaseError, let access = gate.running else { return nil }
        let how: SuspensionGate.Interruption = writer.hasCommitted ? .partly : .rolledBack
        switch error.resultCode {
        case .SQLITE_INTERRUPT, .SQLITE_ABORT:
            guard gate.isAborted else { return nil }
        case .SQLITE_BUSY:
            guard gate.hasGivenUp.load(ordering: .acquiring) else { return nil }
        default: return nil
        }
        return (error.isSuspension ? error : .interrupted(path, access, how, sql: error.sql), how)
    }
}

extension SharedDatabase {
    /// A requested write.
    package struct Write {
        let site: CallSite?
        /// Whether the write waits for the gate to open. Otherwise it fails.
        let waits: Bool
        /// When the waits for the connection, the turn and SQLite's lock end; nil: as the busy timeout says.
        let deadline: Nanoseconds?

        package init(site: CallSite?, waits: Bool, deadline: Nanoseconds? = nil) {
            self.site = site
            self.waits = waits
            self.deadline = deadline
        }
    }

    /// The write of a blocking function.
    func blockingWrite(_ site: CallSite? = nil, _ whileSuspended: WhileSuspended? = nil) -> Write {
        Write(site: site, waits: (whileSuspended ?? self.whileSuspended ?? .fail) == .wait)
    }

    /// The write of a function that is async or returns at once.
    func waitingWrite(_ site: CallSite? = nil, _ whileSuspended: WhileSuspended? = nil) -> Write {
        Write(site: site, waits: (whileSuspended ?? self.whileSuspended ?? .wait) == .wait)
    }
}
