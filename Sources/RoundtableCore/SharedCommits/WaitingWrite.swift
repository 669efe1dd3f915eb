import GRDB
import RoundtableKernel
import Synchronization

/// An asynchronous write that waits for a transaction that it can share (rules M).
///
/// Its closure runs on the writer's queue, but in the task of its caller, so that task-local values, the priority and `Task.isCancelled` are
/// the caller's. For that, it is the executor of an actor of its own: it keeps the task's job until the transaction is open, and then runs
/// it. When the closure has run, the task waits for the outcome of the transaction.
final class WaitingWrite: SerialExecutor, @unchecked Sendable {
    // @unchecked: the lock of `SharedCommits` guards `isCancelled`. For the rest, one thread at a time uses it: the caller's until it has
    // joined, then the one that has taken it out of its group, and the caller's again when the outcome is known.
    typealias Outcome = SharedCommits.Transaction.Outcome

    private enum State {
        case open
        case awaited(UnsafeContinuation<Outcome, Never>)
        case known(Outcome)
    }

    /// Where a write waits.
    struct Queue {
        let priorities: WaitingPriorities
        let seat: Seat?
        /// Called on the caller's thread, when the task begins to wait.
        let join: @Sendable (WaitingWrite) -> Void
    }

    let site: CallSite
    private let priority: SharedDatabase.TurnPriority

    // Rule M10: Each write of a group has a priority, which counts for the ticket (rule T3) from when it is requested until it runs or
    // ends. The group has none of its own: it has that of its most urgent write that has not run. The order of the writes does not depend
    // on priorities.

    /// Whether its priority counts for the ticket of the participant (rule M10).
    private var isInQueue = false
    private let queue: Queue
    var isCancelled = false
    /// What the closure threw, or why the write has failed.
    fileprivate(set) var error: (any Error)?
    /// The connection, while the closure may run.
    fileprivate private(set) var database: Database?
    private var job: UnownedJob?
    private let state = Mutex(State.open)

    init(at site: CallSite, priority: SharedDatabase.TurnPriority, in queue: Queue) {
        self.site = site
        self.priority = priority
        self.queue = queue
    }

    // MARK: In the caller's task

    /// Called by Swift's runtime, once.
    func enqueue(_ job: UnownedJob) {
        self.job = job
        isInQueue = true
        queue.priorities.add(priority, queue.seat)
        queue.join(self)
    }

    /// Waits for the outcome.
    func outcome() async -> Outcome {
        await withUnsafeContinuation { continuation in
            let known: Outcome? = state.withLock { state in
                if case .known(let outcome) = state { return outcome }
                state = .awaited(continuation)
                return nil
            }
            if let known { continuation.resume(returning: known) }
        }
    }

    // MARK: On the writer's queue

    /// Runs the closure.
    ///
    /// - throws: what the closure throws.
    func run(_ db: Database) throws {
        leaveQueue()
        database = db
        runJob()
        database = nil
        if let error { throw error }
    }

    /// Sets the error that the caller receives in place of what the closure threw.
    func replaceError(_ error: any Error) { self.error = error }

    /// Lets the caller's task continue.
    ///
    /// - parameter error: why the write has failed, if that is the outcome.
    func end(_ outcome: Outcome, _ error: (any Error)?) {
        leaveQueue()
        if outcome == .failed || outcome == .lost { self.error = error }
        let continuation: UnsafeContinuation<Outcome, Never>? = state.withLock { state in
            defer { state = .known(outcome) }
            if case .awaited(let continuation) = state { return continuation }
            return nil
        }
        // The task of a write that has not run is still here.
        runJob()
        continuation?.resume(returning: outcome)
    }

    private func leaveQueue() {
        if isInQueue { queue.priorities.remove(priority) }
        isInQueue = false
    }

    private func runJob() {
        guard let job else { return }
        self.job = nil
        job.runSynchronously(on: asUnownedSerialExecutor())
    }
}

/// The actor in which the closure of a ``WaitingWrite`` runs.
actor WaitingWriteActor {
    private nonisolated let waiting: WaitingWrite

    init(_ waiting: WaitingWrite) { self.waiting = waiting }

    nonisolated var unownedExecutor: UnownedSerialExecutor { waiting.asUnownedSerialExecutor() }

    /// Runs the closure, unless the write has ended before.
    func run(_ updates: @Sendable (Database) throws -> Void) {
        guard let database = waiting.database else { return }
        do {
            try Task.checkCancellation()
            try updates(database)
        } catch {
            waiting.error = error
        }
    }
}
