import Dispatch
import GRDB
import RoundtableGate
import RoundtableKernel
import Synchronization

// All writes reach the writer connection in this way: through the gate, on its queue, marked as writing, with the turn. What the gate turns
// back is attempted again when it opens.
//
// The outermost function of a blocking write keeps the result, and passes on a closure without a result. Generic code is not specialized for
// types of other modules, so each function that passes the result would request metadata from Swift's runtime.

// MARK: - Until the gate is open

extension SharedDatabase {
    /// - parameter refuse: called instead of `body` when `body` cannot run.
    func onWriter(
        _ write: Write,
        refuse: (any Error) throws -> Void,
        _ body: (Database) throws -> Void
    ) rethrows {
        try untilRun(write, refuse: refuse) { try attempt(write, body) }
    }

    /// Runs a write without a transaction. A statement of `updates` throws the refusal, because only `updates` can throw.
    func onWriterWithoutTransaction<T>(_ write: Write, _ updates: (Database) throws -> T) rethrows -> T {
        var result: T?
        try onWriter(write, refuse: { result = try failingAccess($0, updates) }) { db in
            result = try withoutTransaction(db, updates)
        }
        return result!
    }

    /// A cancelled task does not wait for its turn.
    func onWriter<T: Sendable>(_ write: Write, _ body: @Sendable (Database) throws -> T) async throws -> T {
        try await untilRun(write) { try await attempt(write, body) }
    }

    /// Runs `updates` without a transaction and with the turn, while no read of this participant runs. Reads continue while it waits for the
    /// gate.
    func onWriterAlone<T>(_ write: Write, _ updates: (Database) throws -> T) throws -> T {
        var result: T?
        try untilRun(write, refuse: { throw $0 }) {
            if gate.isClosed { return .turnedBack }
            return try readers.barrier { try attempt(write) { result = try withoutTransaction($0, updates) } }
        }
        return result!
    }

    /// Runs `updates` without a transaction and with the turn, while no read of this participant runs. Reads continue while it waits for the
    /// gate.
    func onWriterAlone<T: Sendable>(_ write: Write, _ updates: @Sendable (Database) throws -> T) async throws -> T {
        try await untilRun(write) {
            if gate.isClosed { return nil }
            return try await readers.barrier {
                try await attempt(write) { db in try self.withoutTransaction(db, updates) }
            }
        }
    }

    /// Attempts a write until the gate does not turn it back.
    private func untilRun(
        _ write: Write,
        refuse: (any Error) throws -> Void,
        _ attempt: () throws -> Refusal?
    ) rethrows {
        guard isInOwnProcess else { return try refuse(forkedError) }
        while true {
            switch try attempt() {
            case nil: return
            case .failed(let error): return try refuse(error)
            case .turnedBack: break
            }
            guard write.waits else { return try refuse(DatabaseError.suspended(path)) }
            gate.waitUntilOpen()
        }
    }

    /// Attempts a write until the gate does not turn it back.
    ///
    /// - parameter attempt: returns nil when the gate has turned the write back.
    func untilRun<T>(_ write: Write, _ attempt: () async throws -> T?) async throws -> T {
        try checkProcess()
        while true {
            if let result = try await attempt() { return result }
            guard write.waits else { throw DatabaseError.suspended(path) }
            try await gate.waitUntilOpen()
        }
    }

    /// Schedules `body` on the writer connection, and returns immediately.
    ///
    /// - Parameters:
    ///   - failed: called when `body` cannot run: after `fork`, when the connection cannot be reopened, or when the database is
    ///     suspended and the write does not wait.
    ///   - body: throws ``Refusal/turnedBack`` and nothing else.
    func onWriterLater(
        _ write: Write,
        failed: @escaping @Sendable (Database, any Error) -> Void = { _, _ in },
        _ body: @escaping @Sendable (Database) throws -> Void
    ) {
        guard isInOwnProcess else { return failingAccess(forkedError) { failed($0, forkedError) } }
        attemptLater(write, body) { [self] refusal in
            switch refusal {
            case .failed(let error): failingAccess(error) { failed($0, error) }
            case .turnedBack where write.waits:
                whenOpen { [self] in onWriterLater(write, failed: failed, body) }
            case .turnedBack:
                let error = DatabaseError.suspended(path)
                failingAccess(error) { failed($0, error) }
            }
        }
    }

    /// Calls `body` when the gate is open, immediately or on a thread of the system.
    func whenOpen(_ body: @escaping @Sendable () -> Void) {
        let waiter = gate.onChange { DispatchQueue.global().async(execute: body) }
        if !gate.isClosed, gate.cancel(waiter) { body() }
    }

    func onWriterReentrantly<T>(_ write: Write, _ body: (Database) throws -> T) rethrows -> T {
        // The writer already holds the turn here.
        if isInOwnProcess, Access.isWriting(self) { return try writer.queue.unsafeReentrantWrite(body) }
        return try onWriterWithoutTransaction(write, body)
    }
}

// MARK: - One attempt

extension SharedDatabase {
    /// Admits a write: it enters the gate, and the writer connection is open. Each attempt begins here.
    ///
    /// - returns: the visit, which `writing` or the caller ends, and the queue of the connection.
    func admit(_ write: Write) throws(Refusal) -> (visit: UInt64, queue: DatabaseQueue) {
        if gate.isShuttingDown { throw .failed(SharedDatabaseError.shuttingDown(path: path)) }
        if let failure = files.failure { throw .failed(failure) }
        if let refusal = turnRefusal { throw refusal }
        guard let visit = gate.enter(.write, at: write.site, isRunning: false) else { throw .turnedBack }
        do {
            let queue = try writer.openedQueue()
            beginWaiting(write)
            return (visit, queue)
        } catch {
            // Reopening failed, possibly because another process held a lock until the gate closed.
            gate.leave(visit)
            throw error as? Refusal ?? .failed(error)
        }
    }

    /// - returns: why `body` has not run; nil when it has.
    private func attempt(_ write: Write, _ body: (Database) throws -> Void) rethrows -> Refusal? {
        let (visit, queue): (UInt64, DatabaseQueue)
        do { (visit, queue) = try admit(write) } catch { return error }
        return try queue.inDatabase { db in try writing(db, write, visit) { try body(db) } }
    }

    /// - returns: the result of `body`; nil when the gate has turned the write back.
    func attempt<T: Sendable>(_ write: Write, _ body: @Sendable (Database) throws -> T) async throws -> T? {
        let (visit, queue): (UInt64, DatabaseQueue)
        do { (visit, queue) = try admit(write) } catch {
            if case .failed(let error) = error { throw error }
            return nil
        }
        let cancellation = WaitCancellation()
        let hasBegun = Atomic(false)
        // A task that was cancelled before the closure ran has not left the gate.
        defer {
            if !hasBegun.load(ordering: .relaxed) {
                gate.leave(visit)
                endWaiting(write)
            }
        }
        return try await withTaskCancellationHandler {
            try await queue.writeWithoutTransaction { db in
                hasBegun.store(true, ordering: .relaxed)
                var result: T?
                let refusal = try self.writing(db, write, visit, cancellation: cancellation) {
                    try Task.checkCancellation()
                    result = try body(db)
                }
                if case .failed(let error) = refusal { throw error }
                return result
            }
        } onCancel: {
            cancellation.cancel()
        }
    }

    /// - parameter refused: called instead of `body`.
    func attemptLater(
        _ write: Write,
        _ body: @escaping @Sendable (Database) throws -> Void,
        refused: @escaping @Sendable (Refusal) -> Void
    ) {
        do {
            let (visit, queue) = try admit(write)
            queue.asyncWriteWithoutTransaction { db in
                let refusal: Refusal?
                do { refusal = try self.writing(db, write, visit) { try body(db) } } catch { refusal = .turnedBack }
                if let refusal { refused(refusal) }
            }
            // Its caller continues, and may request another write, which must run after this one (rule M7). A group that was founded while this
            // write was being admitted is on the queue before it, so the group is closed now, and not before.
            sharedCommits.closeGroup()
        } catch {
            refused(error)
        }
    }

    /// Runs `body` on the writer connection. It waits for the connection until the deadline of `write` at most.
    ///
    /// - returns: why `body` has not run, also ``Refusal/turnedBack`` when the deadline has passed; nil when it has.
    package func attemptUntilDeadline(
        _ write: Write,
        _ body: @escaping @Sendable (Database) throws -> Void
    ) throws -> Refusal? {
        let (visit, queue): (UInt64, DatabaseQueue)
        do { (visit, queue) = try admit(write) } catch { return error }
        let patience = PatientAccess<Refusal?>()
        queue.asyncWriteWithoutTransaction { db in
            patience.run { try self.writing(db, write, visit) { try body(db) } }
        }
        if let outcome = try patience.wait(until: write.deadline ?? .max) { return outcome }
        gate.leave(visit)
        endWaiting(write)
        return .turnedBack
    }

    /// Runs a write that was admitted. Call it on the writer's queue.
    ///
    /// - returns: ``Refusal/turnedBack`` when the gate has closed before `body` ran; nil when it has run.
    func writing(
        _ db: Database,
        _ write: Write,
        _ visit: UInt64,
        cancellation: WaitCancellation? = nil,
        _ body: () throws -> Void
    ) rethrows -> Refusal? {
        // Others may read what was committed, so it is announced when the turn has been released.
        defer {
            if let lender, let tables = writer.recorder?.takeCommitted() { lender.announce(tables) }
            if writer.recorder?.owesAnnouncement == true { announceOwed() }
        }
        var waits = true
        defer { if waits { endWaiting(write) } }
        guard let started = gate.start(visit) else {
            gate.leave(visit)
            return .turnedBack
        }
        var interruption: SuspensionGate.Interruption?
        let meter = metering.current
        var measured: MeasuredWrite?
        var failure: (any Error)?
        // The visit has ended when the meter is called, so that a slow meter delays no suspension.
        defer { if let meter, let measured { meter.follower.didWrite(measured, since: started, failure) } }
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
                    priority: { waitingPriorities.mostUrgent?.rawValue }
                ) {
                    endWaiting(write)
                    waits = false
                    if meter != nil { measured = MeasuredWrite(turnBegan: MonotonicClock.now) }
                    defer { if meter != nil { measured?.hasCommitted = writer.hasCommitted } }
                    try body()
                }
            }
            return hasRun ? nil : .turnedBack
        } catch let refusal as Refusal {
            measured = nil
            return refusal
        } catch {
            // Nothing has run, so the write can be attempted again.
            if writer.hasFailedToBegin, gate.isObstacle(error) {
                measured = nil
                return .turnedBack
            }
            failure = error
            if meter != nil, measured == nil { measured = MeasuredWrite() }
            guard let ended = self.interruption(by: error) else {
                // The closure may have replaced the error of the abort by one of its own.
                if gate.isAborted, !writer.hasFailedToBegin {
                    interruption = writer.hasCommitted ? .partly : .rolledBack
                }
                throw error
            }
            interruption = ended.how
            throw ended.error
        }
    }

    /// How the gate has ended a write, and the error of that; nil when the write ended for another reason. Call it on the
    /// writer's queue, inside the gate.
    func interruption(by error: any Error) -> (error: DatabaseError, how: SuspensionGate.Interruption)? {
        guard !writer.hasFailedToBegin, let error = error as? DatabaseError, let access = gate.running else {
            return nil
        }
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

// MARK: - Within the turn

extension SharedDatabase {
    /// Runs a write transaction. Call it on the writer's queue, with the turn.
    package func transaction(_ db: Database, _ updates: () throws -> Void) throws {
        try writer.transaction(db) {
            writer.prepareCompanions(db)
            try updates()
        }
    }

    /// Does the same with a result.
    func transaction<T>(_ db: Database, _ updates: (Database) throws -> T) throws -> T {
        var result: T?
        try transaction(db) { result = try updates(db) }
        return result!
    }

    /// Prepares a write without a transaction, and runs `body`.
    func withoutTransaction<T>(_ db: Database, _ body: (Database) throws -> T) rethrows -> T {
        // If this check fails, `body` fails for the same reason and reports it.
        writer.prepareOutsideTransaction(db)
        return try body(db)
    }
}
