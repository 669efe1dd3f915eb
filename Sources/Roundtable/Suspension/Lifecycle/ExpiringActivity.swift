import Dispatch
import Synchronization

/// What becomes of an expiring activity: `ProcessInfo.performExpiringActivity(withReason:using:)`, as a pure state machine.
///
/// The system's way of calling is odd. It calls one block, on threads of its own:
///
/// - with *false* when it has granted the time, which lasts until that call returns;
/// - with *true* when it has not;
/// - with *true* a second time, while the first call still runs, when the time is over.
///
/// Nothing says that these calls come in this order, or at all while the process has no thread to spare, and whoever asked may have
/// stopped waiting when the answer comes.
struct ExpiringActivityMachine: Equatable, Sendable {
    enum State: Equatable, Sendable {
        case asked
        case granted
        /// The time is over; whoever has it was told, and may still end it.
        case expiring
        /// Refused, ended, or given up by whoever asked.
        case over
    }

    /// What a call of the system's is to do.
    enum Call: Equatable, Sendable {
        /// Answer that the time is granted, and keep it: do not return before the end.
        case keep
        /// Answer that there is none, and return.
        case refuse
        /// Tell that it is over, and return at the end, or when the time that is left is over.
        case tell
        case `return`
    }

    private(set) var state = State.asked

    mutating func called(expired: Bool) -> Call {
        switch (state, expired) {
        case (.asked, false):
            state = .granted
            return .keep
        case (.asked, true):
            state = .over
            return .refuse
        case (.granted, true):
            state = .expiring
            return .tell
        case (.granted, false), (.expiring, _), (.over, _):
            return .return
        }
    }

    /// - returns: whether this is the end.
    mutating func end() -> Bool {
        defer { state = .over }
        return state != .over
    }

    /// Whoever asked waits no longer.
    ///
    /// - returns: whether the time was granted after all.
    mutating func giveUp() -> Bool {
        guard state == .asked else { return state == .granted || state == .expiring }
        state = .over
        return false
    }
}

/// Assertions by expiring activities, in whichever process: an app, an extension, a watch app.
///
/// An activity costs a thread for as long as it lasts, since it ends when its block returns. There is one at a time: the gate takes one
/// for all writes of the process.
struct ExpiringActivities: SuspensionAssertions {
    /// `ProcessInfo.performExpiringActivity`.
    let perform: @Sendable (_ reason: String, _ block: @escaping @Sendable (Bool) -> Void) -> Void
    /// What is left when the system says that the time is over. It does not say how much that is.
    var remainder = Duration.seconds(1)
    /// How long to wait for the answer, which comes from another thread at once, or when the system is busy.
    var patience = Duration.seconds(1)

    func begin(_ name: String, onExpiry: @escaping @Sendable (Duration) -> Void) -> (any SuspensionAssertion)? {
        let activity = ExpiringActivity(remainder: remainder, onExpiry: onExpiry)
        // The system takes no empty reason.
        perform(name.isEmpty ? "Roundtable" : name, activity.called)
        return activity.isGranted(within: patience) ? activity : nil
    }
}

private final class ExpiringActivity: SuspensionAssertion {
    private let machine = Mutex(ExpiringActivityMachine())
    private let answered = DispatchSemaphore(value: 0)
    private let over = DispatchGroup()
    private let remainder: Duration
    private let onExpiry: @Sendable (Duration) -> Void

    init(remainder: Duration, onExpiry: @escaping @Sendable (Duration) -> Void) {
        self.remainder = remainder
        self.onExpiry = onExpiry
        over.enter()
    }

    /// By the system, on a thread that may be kept.
    @Sendable func called(expired: Bool) {
        switch machine.withLock({ $0.called(expired: expired) }) {
        case .keep:
            answered.signal()
            over.wait()
        case .refuse:
            answered.signal()
            over.leave()
        case .tell:
            let end = DispatchTime.now() + remainder.dispatched
            onExpiry(remainder)
            _ = over.wait(timeout: end)
            // Kept any longer, the system would end the process.
            self.end()
        case .return:
            break
        }
    }

    func isGranted(within patience: Duration) -> Bool {
        if answered.wait(timeout: .now() + patience.dispatched) == .timedOut {
            return machine.withLock { $0.giveUp() }
        }
        return machine.withLock { $0.state != .over }
    }

    func end() {
        if machine.withLock({ $0.end() }) { over.leave() }
    }
}
