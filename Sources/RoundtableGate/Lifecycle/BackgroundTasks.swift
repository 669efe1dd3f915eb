import Dispatch
import Synchronization

/// Assertions by background tasks of an app: `UIApplication.beginBackgroundTask(withName:expirationHandler:)`.
///
/// The system answers immediately, and no thread is blocked. But the expiration handler can be called before the number of the task
/// is known, and the system ends an app (`0x8badf00d`) whose task has not ended by then.
struct BackgroundTasks: SuspensionAssertions {
    /// Begins a task; nil when the system grants no time. The handler is called on the main thread.
    let beginTask: @Sendable (_ name: String, _ handler: @escaping @Sendable () -> Void) -> Int?
    let endTask: @Sendable (Int) -> Void
    /// The assumed remaining time when the system says that the time is over. The system does not say how much remains.
    var remainder = Duration.seconds(1)

    func begin(_ name: String, onExpiry: @escaping @Sendable (Duration) -> Void) -> (any SuspensionAssertion)? {
        let task = BackgroundTask(endTask: endTask)
        let number = beginTask(name) { [remainder] in
            let end = DispatchTime.now() + remainder.dispatched
            guard task.expire() else { return }
            onExpiry(remainder)
            // The process is not suspended before this returns.
            task.waitForEnd(until: end)
            task.end()
        }
        guard let number else { return nil }
        task.begun(number)
        return task
    }
}

private final class BackgroundTask: SuspensionAssertion {
    private struct State {
        var number: Int?
        var isExpired = false
        var isOver = false
    }

    private let state = Mutex(State())
    private let over = DispatchGroup()
    private let endTask: @Sendable (Int) -> Void

    init(endTask: @escaping @Sendable (Int) -> Void) {
        self.endTask = endTask
        over.enter()
    }

    func begun(_ number: Int) {
        let isOver = state.withLock {
            $0.number = number
            return $0.isOver
        }
        if isOver { endTask(number) }
    }

    /// - returns: whether the expiry must be reported.
    func expire() -> Bool {
        state.withLock { state in
            defer { state.isExpired = true }
            return !state.isExpired && !state.isOver
        }
    }

    func waitForEnd(until end: DispatchTime) { _ = over.wait(timeout: end) }

    func end() {
        let (isEnd, number) = state.withLock { state in
            defer { state.isOver = true }
            return (!state.isOver, state.number)
        }
        guard isEnd else { return }
        if let number { endTask(number) }
        over.leave()
    }
}

extension Duration {
    /// This duration as an interval for Dispatch.
    var dispatched: DispatchTimeInterval {
        let (seconds, attoseconds) = components
        return .nanoseconds(Int(clamping: seconds) &* 1_000_000_000 &+ Int(attoseconds / 1_000_000_000))
    }
}
