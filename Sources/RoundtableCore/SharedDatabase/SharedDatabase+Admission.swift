import GRDB
import RoundtableGate
import RoundtableKernel
import Synchronization

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

    /// Whether a write may begin.
    enum Admission {
        /// The write is inside the gate, and runs on the writer connection next. `writing` or the caller leaves the gate.
        case admitted(visit: UInt64, DatabaseQueue)
        case refused(Attempt)
    }

    /// Admits a write: it enters the gate, and the writer connection is open. Each write begins here.
    func admit(_ write: Write) -> Admission {
        if gate.isShuttingDown { return .refused(.failed(SharedDatabaseError.shuttingDown(path: path))) }
        if let failure = files.failure { return .refused(.failed(failure)) }
        guard let visit = gate.enter(.write, at: write.site, isRunning: false) else { return .refused(.turnedBack) }
        do {
            let queue = try writer.openedQueue()
            beginWaiting(write)
            return .admitted(visit: visit, queue)
        } catch {
            // Reopening failed, possibly because another process held a lock until the gate closed.
            gate.leave(visit)
            return .refused(error is NotBegun ? .turnedBack : .failed(error))
        }
    }

    func attempt(_ write: Write, _ body: (Database) throws -> Void) rethrows -> Attempt {
        switch admit(write) {
        case .refused(let attempt): return attempt
        case .admitted(let visit, let queue):
            return try queue.inDatabase { db in try writing(db, write, visit) { try body(db) } }
        }
    }

    /// - returns: the outcome, and the result of `body` if it is done.
    func attempt<T: Sendable>(
        _ write: Write,
        _ body: @Sendable (Database) throws -> T
    ) async throws -> (Attempt, T?) {
        let (visit, queue): (UInt64, DatabaseQueue)
        switch admit(write) {
        case .refused(let attempt): return (attempt, nil)
        case .admitted(let admitted, let connection): (visit, queue) = (admitted, connection)
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
        switch admit(write) {
        case .refused(.failed(let error)): turnedBack(error)
        case .refused: turnedBack(nil)
        case .admitted(let visit, let queue):
            queue.asyncWriteWithoutTransaction { db in
                let attempt = try? self.writing(db, write, visit) { try body(db) }
                if case .done = attempt { return }
                turnedBack(nil)
            }
            // Its caller continues, and may request another write, which must run after this one (rule M7). A group that was founded while this
            // write was being admitted is on the queue before it, so the group is closed now, and not before.
            sharedCommits.closeGroup()
        }
    }

    /// Runs `body` on the writer connection. It waits for the connection until the deadline of `write` at most.
    ///
    /// - returns: nil when the deadline has passed before `body` could begin.
    package func attemptUntilDeadline(
        _ write: Write,
        _ body: @escaping @Sendable (Database) throws -> Void
    ) throws -> Attempt? {
        switch admit(write) {
        case .refused(let attempt): return attempt
        case .admitted(let visit, let queue):
            let patience = PatientAccess<Attempt>()
            queue.asyncWriteWithoutTransaction { db in
                patience.run { try self.writing(db, write, visit) { try body(db) } }
            }
            if let outcome = try patience.wait(until: write.deadline ?? .max) { return outcome }
            gate.leave(visit)
            endWaiting(write)
            return nil
        }
    }

    func writing(
        _ db: Database,
        _ write: Write,
        _ visit: UInt64,
        cancellation: WaitCancellation? = nil,
        _ body: () throws -> Void
    ) rethrows -> Attempt {
        var waits = true
        func hasWaited() {
            if waits { endWaiting(write) }
            waits = false
        }
        defer { hasWaited() }
        guard let started = gate.start(visit) else {
            gate.leave(visit)
            return .turnedBack
        }
        var interruption: SuspensionGate.Interruption?
        let meter = metering.current
        var measured: MeasuredWrite?
        var failure: (any Error)?
        // The visit has ended when the meter is called, so that a slow meter delays no suspension.
        defer { if let meter, let measured { meter.didWrite(measured, since: started, failure) } }
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
                    setPriority: { waitingPriorities.apply(to: $0) }
                ) {
                    hasWaited()
                    if meter != nil { measured = MeasuredWrite(turnBegan: MonotonicClock.now) }
                    defer { if meter != nil { measured?.hasCommitted = writer.hasCommitted } }
                    try body()
                }
            }
            return hasRun ? .done : .turnedBack
        } catch let error as NotBegun {
            if error.isForGate || gate.isClosed {
                measured = nil
                return .turnedBack
            }
            failure = error.reason
            if meter != nil, measured == nil { measured = MeasuredWrite() }
            throw error.reason
        } catch {
            failure = error
            if meter != nil, measured == nil { measured = MeasuredWrite() }
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
