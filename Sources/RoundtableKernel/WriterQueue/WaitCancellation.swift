import Synchronization

/// Ends waits for the turn from another thread: a single wait, or those of all participants of a process until `reset()`.
package final class WaitCancellation: Sendable {
    private struct State {
        var isCancelled = false
        /// One closure for each participant that waits.
        var wakes: [(waiter: ObjectIdentifier, wake: @Sendable () -> Void)] = []
    }
    private let state = Mutex(State())

    package init() {}

    package var isCancelled: Bool { state.withLock { $0.isCancelled } }

    package func cancel() {
        let wakes = state.withLock { state in
            state.isCancelled = true
            return state.wakes
        }
        for (_, wake) in wakes { wake() }
    }

    package func reset() { state.withLock { $0.isCancelled = false } }

    /// Registers the closure that wakes the thread of a waiter.
    package func arm(_ waiter: AnyObject, wake: @escaping @Sendable () -> Void) {
        state.withLock { $0.wakes.append((ObjectIdentifier(waiter), wake)) }
    }

    package func disarm(_ waiter: AnyObject) {
        state.withLock { state in
            state.wakes.removeAll { $0.waiter == ObjectIdentifier(waiter) }
        }
    }
}
