import Synchronization

/// Lets another thread end one wait for the turn, or all of a participant until `reset()`.
package final class WaitCancellation: Sendable {
    private let state = Mutex<(isCancelled: Bool, wake: (@Sendable () -> Void)?)>((false, nil))

    package init() {}

    package var isCancelled: Bool { state.withLock { $0.isCancelled } }

    package func cancel() {
        let wake = state.withLock { state in
            state.isCancelled = true
            return state.wake
        }
        wake?()
    }

    package func reset() { state.withLock { $0.isCancelled = false } }

    /// Says how to end the sleep of the waiting thread.
    func arm(wake: @escaping @Sendable () -> Void) { state.withLock { $0.wake = wake } }
    func disarm() { state.withLock { $0.wake = nil } }
}
