import Synchronization

/// Lets another thread end one wait for the turn, or all of a process's participants until `reset()`.
package final class WaitCancellation: Sendable {
    private struct State {
        var isCancelled = false
        /// One for each participant that waits.
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

    /// Says how to end the sleep of a waiting thread.
    package func arm(_ waiter: AnyObject, wake: @escaping @Sendable () -> Void) {
        state.withLock { $0.wakes.append((ObjectIdentifier(waiter), wake)) }
    }

    package func disarm(_ waiter: AnyObject) {
        state.withLock { state in
            state.wakes.removeAll { $0.waiter == ObjectIdentifier(waiter) }
        }
    }
}
