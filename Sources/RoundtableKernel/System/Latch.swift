import Synchronization

/// A value that comes once, for one task that waits for it. It is not for each write: a generic class is not specialized in other modules, and
/// cost shared commits a sixth.
package final class Latch<Value: Sendable>: Sendable {
    private enum State {
        case open
        case awaited(UnsafeContinuation<Value, Never>)
        case known(Value)
    }
    private let state = Mutex(State.open)

    package init() {}

    /// Sets the value, and lets the task continue that waits for it. A second value is dropped.
    package func set(_ value: Value) {
        let continuation: UnsafeContinuation<Value, Never>? = state.withLock { state in
            switch state {
            case .open:
                state = .known(value)
                return nil
            case .awaited(let continuation):
                state = .known(value)
                return continuation
            case .known: return nil
            }
        }
        continuation?.resume(returning: value)
    }

    /// The value. One task may wait for it.
    package var value: Value {
        get async {
            await withUnsafeContinuation { continuation in
                let known: Value? = state.withLock { state in
                    if case .known(let value) = state { return .some(value) }
                    state = .awaited(continuation)
                    return nil
                }
                if let known { continuation.resume(returning: known) }
            }
        }
    }
}

extension Latch where Value == Void {
    package func set() { set(()) }
}
