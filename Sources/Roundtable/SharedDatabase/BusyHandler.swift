import GRDB
import RoundtableKernel
import Synchronization

/// SQLite's busy handler for one connection: short waits up to a deadline, or as long as a callback says, then a look at who is in the way.
///
/// Waits are short because of a participant's writers at most one, the one with the turn, waits here: SQLite's own handler would be up to
/// 100 ms late.
final class BusyHandler: @unchecked Sendable {
    // @unchecked: confined to the connection's queue, where SQLite calls it.
    private let path: String
    /// Of locks that a deadline was not given for.
    private let timeout: Nanoseconds
    private let setupTimeout: Nanoseconds
    /// nil for a connection that no gate is about.
    private let gate: SuspensionGate?
    private let question: BusyQuestion?
    /// Nobody has asked for what is waited for yet: the busy mode is not asked either.
    var isSettingUp = false
    private var requested: Nanoseconds?
    private var deadline: Nanoseconds?
    private var isSpent = false
    private var isInTurn = false
    /// Whether a lock was waited for since the turn was requested.
    private var hasWaited = false
    private var obstacle: String?
    /// Of the write that has the turn.
    private var cancellation: WaitCancellation?
    private var hasBeenCancelled = false

    private static let shortest: Nanoseconds = 50_000
    private static let longest: Nanoseconds = 2_000_000

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

    func take(_ participant: @escaping () -> Participant?) {
        self.participant = participant
        question?.participant = participant
    }

    private var participant: () -> Participant? = { nil }

    // MARK: The turn

    /// What became of earlier waits. Also before the connection is opened again, which waits for locks outside of any turn.
    func forgetWaits() {
        hasBeenCancelled = false
        gate?.hasGivenUp.store(false, ordering: .releasing)
        obstacle = nil
    }

    /// Before a turn is waited for.
    ///
    /// - parameter deadline: nil: by the busy mode.
    /// - parameter cancellation: ends waits for SQLite's locks, too.
    /// - returns: until when to wait for it.
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

    /// What else ends the wait for a turn.
    var turnLimit: (any WaitLimit)? { question }

    /// The time was used up waiting for the turn: SQLite is asked once.
    func turnTimedOut() { isSpent = true }

    func end() {
        requested = nil
        deadline = nil
        isSpent = false
        isInTurn = false
        cancellation = nil
    }

    // MARK: SQLite's locks

    /// Whether SQLite shall try again.
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
        if tries == 0 {
            // What the turn left of the time is for the first lock; each later one has a time of its own.
            if !isSpent, !isInTurn || hasWaited || now >= deadline ?? 0 {
                if !isInTurn || now >= deadline ?? 0 {
                    deadline = now.addingSaturating(isSettingUp ? setupTimeout : timeout)
                    requested = now
                }
                question?.begin(at: now)
            }
            hasWaited = true
        }
        guard !isSpent, let deadline, now < deadline, goesOn(at: now) else {
            let holder = LockHolder.find(databasePath: path, participant: participant())
            obstacle = holder.description(waited: now &- (requested ?? now))
            self.deadline = nil
            isSpent = false
            return false
        }
        MonotonicClock.sleep(min(Self.longest, Self.shortest << UInt64(min(tries, 8)), deadline - now))
        return true
    }

    private func goesOn(at now: Nanoseconds) -> Bool {
        guard !isSettingUp, let question, now >= question.nextQuestion else { return true }
        return question.goesOn(at: now)
    }

    /// Adds to `SQLITE_BUSY` who is in the way. Of a write that was cancelled while it waited, nobody is.
    func named(_ error: DatabaseError) -> any Error {
        if hasBeenCancelled { return CancellationError() }
        guard let obstacle else { return error }
        return DatabaseError(
            resultCode: error.extendedResultCode,
            message: "database is locked: \(obstacle)",
            sql: error.sql,
            arguments: error.arguments
        )
    }
}

/// Asks the callback of a busy mode whether a wait goes on, ever less often.
private final class BusyQuestion: WaitLimit {
    private let path: String
    private let callback: @Sendable (SharedDatabase.BusyWait) -> Bool
    var participant: () -> Participant? = { nil }
    private var began: Nanoseconds = 0
    private var tries = 0
    private(set) var nextQuestion: Nanoseconds = 0

    private static let firstPause: Nanoseconds = 10_000_000
    private static let longestPause: Nanoseconds = 100_000_000

    init(path: String, _ callback: @escaping @Sendable (SharedDatabase.BusyWait) -> Bool) {
        self.path = path
        self.callback = callback
    }

    func begin(at now: Nanoseconds) {
        began = now
        tries = 0
        nextQuestion = now.addingSaturating(Self.firstPause)
    }

    func goesOn(at now: Nanoseconds) -> Bool {
        let holder = LockHolder.find(databasePath: path, participant: participant()).named()
        let elapsed = Duration.nanoseconds(Int64(clamping: now.subtractingSaturating(began)))
        let answer = callback(SharedDatabase.BusyWait(path: path, tries: tries, elapsed: elapsed, holder: holder))
        let pause = min(Self.longestPause, Self.firstPause << UInt64(min(tries, 8)))
        tries += 1
        nextQuestion = MonotonicClock.now.addingSaturating(pause)
        return answer
    }
}
