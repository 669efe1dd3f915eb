import Dispatch
import Synchronization

/// The states of an expiring activity, `ProcessInfo.performExpiringActivity(withReason:using:)`, as a pure state machine.
///
/// The system calls one block, on threads of its own:
///
/// - with *false* when it has granted the time, which lasts until that call returns;
/// - with *true* when it has refused the time;
/// - with *true* a second time, while the first call still runs, when the time is over.
///
/// The order of these calls is not documented, and they may not come at all while the process has no thread to spare. The
/// requester may have stopped waiting when the answer comes.
struct ExpiringActivityMachine: Equatable, Sendable {
    enum State: Equatable, Sendable {
        case asked
        case granted
        /// The time is over. The owner was notified, and may still end the activity.
        case expiring
        /// The activity was refused, ended, or given up by the requester.
        case over
    }

    /// What a call by the system must do.
    enum Call: Equatable, Sendable {
        /// Answer that the time is granted, and keep it: do not return before the end.
        case keep
        /// Answer that no time is granted, and return.
        case refuse
        /// Report that the time is over, and return at the end, or when the remaining time is over.
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

    /// - returns: whether this call has ended the activity.
    mutating func end() -> Bool {
        defer { state = .over }
        return state != .over
    }

    /// Notes that the requester no longer waits.
    ///
    /// - returns: whether the time was granted after all.
    mutating func giveUp() -> Bool {
        guard state == .asked else { return state == .granted || state == .expiring }
        state = .over
        return false
    }
}

/// Assertions by expiring activities, in any process: an app, or an extension.
///
/// An activity occupies a thread as long as it lasts, because it ends when its block returns. There is one at a time: the gate
/// requests one for all writes of the process.
struct ExpiringActivities: SuspensionAssertions {
    /// `ProcessInfo.performExpiringActivity`.
    let perform: @Sendable (_ reason: String, _ block: @escaping @Sendable (Bool) -> Void) -> Void
    /// The assumed remaining time when the system says that the time is over. The system does not say how much remains.
    var remainder = Duration.seconds(1)
    /// How long to wait for the answer. It comes from another thread, immediately or later if the system is busy.
    var patience = Duration.seconds(1)
    /// How long one activity keeps its thread; then it counts as expired. The system should say before that the time is over. If it does not,
    /// the process is in the foreground, or the system cannot call, because all its threads are kept so.
    var ceiling = Duration.seconds(60)

    func begin(_ name: String, onExpiry: @escaping @Sendable (Duration) -> Void) -> (any SuspensionAssertion)? {
        let activity = ExpiringActivity(remainder: remainder, ceiling: ceiling, onExpiry: onExpiry)
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
    private let ceiling: Duration
    private let onExpiry: @Sendable (Duration) -> Void

    init(remainder: Duration, ceiling: Duration, onExpiry: @escaping @Sendable (Duration) -> Void) {
        self.remainder = remainder
        self.ceiling = ceiling
        self.onExpiry = onExpiry
        over.enter()
    }

    /// Called by the system, on a thread that may be blocked.
    @Sendable func called(expired: Bool) {
        switch machine.withLock({ $0.called(expired: expired) }) {
        case .keep:
            answered.signal()
            // `WriteAssertions` replaces an activity that is in use before that, unless the system refuses.
            if over.wait(timeout: .now() + ceiling.dispatched) == .timedOut { called(expired: true) }
        case .refuse:
            answered.signal()
            over.leave()
        case .tell:
            let end = DispatchTime.now() + remainder.dispatched
            onExpiry(remainder)
            _ = over.wait(timeout: end)
            // If the call took any longer, the system would end the process.
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
