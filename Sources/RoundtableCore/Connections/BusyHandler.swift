import GRDB
import RoundtableGate
import RoundtableKernel
import Synchronization

/// SQLite's busy handler for one connection. It sleeps for short times until a deadline, or as long as a callback says. Then it
/// determines the holder of the lock.
///
/// The sleeps are short, because at most one writer of a participant waits here: the one that holds the turn. SQLite's own
/// handler would be up to 100 ms late.
final class BusyHandler: @unchecked Sendable {
    // @unchecked: confined to the connection's queue, where SQLite calls it.
    private let path: String
    /// The timeout of locks that have no deadline of their own.
    private let timeout: Nanoseconds
    private let setupTimeout: Nanoseconds
    /// nil for a connection that no gate guards.
    private let gate: SuspensionGate?
    private let question: BusyQuestion?
    /// Whether the connection is being set up. Such waits use `setupTimeout`, and do not call the callback of the busy mode.
    var isSettingUp = false
    /// How long one attempt waits of a caller that repeats it, and determines the holder itself. nil: as long as the busy mode says.
    var attemptLimit: Nanoseconds?
    private var attemptDeadline: Nanoseconds = 0
    private var requested: Nanoseconds?
    private var deadline: Nanoseconds?
    private var isSpent = false
    private var isInTurn = false
    /// Whether a lock was waited for since the turn was requested.
    private var hasWaited = false
    /// When the wait for the present lock began.
    private var began: Nanoseconds = 0
    private var obstacle: String?
    /// The cancellation of the write that waits for the turn or holds it.
    private var cancellation: WaitCancellation?
    private var hasBeenCancelled = false

    private static let backoff = Backoff(.microseconds(50), upTo: .milliseconds(2))

    init(path: String, options: SharedDatabase.Options, gate: SuspensionGate?) {
        self.path = path
        self.gate = gate
        timeout = options.busyTimeout.nanoseconds
        setupTimeout = if case .timeout = options.busyMode { timeout } else { options.setupTimeout.nanoseconds }
        if case .callback(let callback) = options.busyMode {
            question = BusyQuestion(path: path, callback)
        } else {
            question = nil
        }
    }

    /// How long opening the connection waits.
    var openingTimeout: Nanoseconds { isSettingUp ? setupTimeout : timeout }

    /// The seat of the participant; nil while it has none.
    var seat: Seat? {
        didSet { question?.seat = seat }
    }

    // MARK: The turn

    /// Forgets the outcome of earlier waits. Call it also before the connection is reopened, because reopening waits for locks
    /// outside of any turn.
    func forgetWaits() {
        hasBeenCancelled = false
        gate?.hasGivenUp.store(false, ordering: .releasing)
        obstacle = nil
    }

    /// Prepares the wait for a turn.
    ///
    /// - parameter deadline: when the wait ends; nil: as the busy mode says.
    /// - parameter cancellation: ends waits for SQLite's locks, too.
    /// - returns: the deadline of the wait for the turn.
    func begin(
        requested: Nanoseconds,
        deadline: Nanoseconds?,
        cancellation: WaitCancellation? = nil
    ) -> Nanoseconds {
        self.cancellation = cancellation
        forgetWaits()
        let deadline = deadline ?? requested.addingSaturating(timeout)
        self.requested = requested
        self.deadline = deadline
        isSpent = false
        isInTurn = true
        hasWaited = false
        question?.begin(at: requested)
        return deadline
    }

    /// Ends the wait for a turn in addition to the deadline.
    var turnLimit: (any WaitLimit)? { question }

    /// Notes that the wait for the turn has used up the time. SQLite's lock is then tried only once.
    func turnTimedOut() { isSpent = true }

    func end() {
        requested = nil
        deadline = nil
        isSpent = false
        isInTurn = false
        cancellation = nil
    }

    // MARK: SQLite's locks

    /// Returns whether SQLite must retry.
    func next(tries: Int) -> Bool {
        if let gate, gate.isClosed {
            gate.hasGivenUp.store(true, ordering: .releasing)
            return false
        }
        if cancellation?.isCancelled == true {
            hasBeenCancelled = true
            return false
        }
        let now = MonotonicClock.now
        if let attemptLimit {
            if tries == 0 { attemptDeadline = now.addingSaturating(attemptLimit) }
            guard now < attemptDeadline else { return false }
            MonotonicClock.sleep(min(Self.backoff.longest, attemptDeadline - now))
            return true
        }
        if tries == 0 {
            began = now
            // Within a turn, the first lock may use the time that is left after the wait for the turn. A later lock keeps this deadline
            // while it has not passed, but the callback of the busy mode starts again. Once the deadline has passed, or outside of a turn,
            // a lock gets the full timeout.
            if !isSpent, !isInTurn || hasWaited || now >= deadline ?? 0 {
                if !isInTurn || now >= deadline ?? 0 {
                    deadline = now.addingSaturating(isSettingUp ? setupTimeout : timeout)
                    requested = now
                }
                question?.begin(at: now)
            }
            hasWaited = true
        }
        guard !isSpent, let deadline, now < deadline, mayContinue(at: now) else {
            let holder = LockHolder.find(databasePath: path, seat: seat)
            obstacle = holder.description(waited: now &- (requested ?? now))
            self.deadline = nil
            isSpent = false
            return false
        }
        MonotonicClock.sleep(min(Self.backoff.pause(after: tries + 1), deadline - now))
        // Other participants see this wait like one for the turn, since the holder of the lock may be a program without turns.
        if isInTurn { seat?.participant?.note(wait: MonotonicClock.now &- began) }
        return true
    }

    private func mayContinue(at now: Nanoseconds) -> Bool {
        guard !isSettingUp, let question, now >= question.nextQuestion else { return true }
        return question.mayContinue(at: now)
    }

    /// Adds the holder of the lock to `SQLITE_BUSY`. The error of a write that was cancelled while it waited is a
    /// `CancellationError`.
    func named(_ error: DatabaseError) -> any Error {
        if hasBeenCancelled { return CancellationError() }
        if error.extendedResultCode == .SQLITE_BUSY_SNAPSHOT { return error.namingStaleSnapshot }
        guard let obstacle, error.hasPlainMessage else { return error }
        return DatabaseError(
            resultCode: error.extendedResultCode,
            message: "database is locked: \(obstacle)",
            sql: error.sql,
            arguments: error.arguments
        )
    }
}

/// Calls the callback of a busy mode during a wait, less and less often.
private final class BusyQuestion: WaitLimit {
    private let path: String
    private let callback: @Sendable (SharedDatabase.BusyWait) -> Bool
    var seat: Seat?
    private var began: Nanoseconds = 0
    private var backoff = Backoff(.milliseconds(10), upTo: .milliseconds(100))
    private(set) var nextQuestion: Nanoseconds = 0

    init(path: String, _ callback: @escaping @Sendable (SharedDatabase.BusyWait) -> Bool) {
        self.path = path
        self.callback = callback
    }

    func begin(at now: Nanoseconds) {
        began = now
        backoff.succeeded()
        nextQuestion = now.addingSaturating(backoff.shortest)
    }

    func mayContinue(at now: Nanoseconds) -> Bool {
        let holder = LockHolder.find(databasePath: path, seat: seat)
        let elapsed = Duration.nanoseconds(Int64(clamping: now.subtractingSaturating(began)))
        let answer = callback(
            SharedDatabase.BusyWait(path: path, tries: backoff.failures, elapsed: elapsed, holder: holder)
        )
        nextQuestion = MonotonicClock.now.addingSaturating(backoff.next())
        return answer
    }
}
