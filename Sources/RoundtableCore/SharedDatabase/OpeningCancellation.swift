import RoundtableGate
import Synchronization

/// Ends the opening of a database whose task is cancelled, by closing its gate: every wait and every statement of the opening ends with that.
package final class OpeningCancellation: Sendable {
    private struct State {
        var isCancelled = false
        /// The gate of the opening that runs; nil before it, and after it.
        var gate: SuspensionGate?
    }
    private let state = Mutex(State())

    package init() {}

    package var isCancelled: Bool { state.withLock { $0.isCancelled } }

    /// The opening has a gate from now on.
    ///
    /// - throws: `CancellationError`.
    func begin(_ gate: SuspensionGate) throws {
        try state.withLock { state in
            if state.isCancelled { throw CancellationError() }
            state.gate = gate
        }
    }

    /// The database is open. If this does not throw, its gate is not closed any more by a cancellation.
    ///
    /// - throws: `CancellationError`.
    func end() throws {
        try state.withLock { state in
            state.gate = nil
            if state.isCancelled { throw CancellationError() }
        }
    }

    func cancel() {
        state.withLock { state in
            state.isCancelled = true
            state.gate?.discard()
        }
    }
}
