import Dispatch
import RoundtableKernel
import Synchronization

/// An access to a connection that other threads use. It is abandoned if it has not begun by a deadline.
final class PatientAccess<Outcome: Sendable>: Sendable {
    private enum State {
        case waiting
        case running
        case done(Result<Outcome, any Error>)
        case abandoned
    }

    private let state = Mutex(State.waiting)
    private let hasEnded = MonotonicSemaphore()

    /// Runs the access, on the connection's queue. It does nothing if the access was abandoned.
    func run(_ body: () throws -> Outcome) {
        let isWanted = state.withLock { state in
            guard case .waiting = state else { return false }
            state = .running
            return true
        }
        guard isWanted else { return }
        let result = Result(catching: body)
        state.withLock { $0 = .done(result) }
        hasEnded.signal()
    }

    /// - returns: nil when the access had not begun by the deadline, and never will.
    func wait(until deadline: Nanoseconds) throws -> Outcome? {
        if !hasEnded.wait(until: deadline) {
            let isAbandoned = state.withLock { state in
                guard case .waiting = state else { return false }
                state = .abandoned
                return true
            }
            if isAbandoned { return nil }
            hasEnded.wait()
        }
        guard case .done(let result) = state.withLock({ $0 }) else { return nil }
        return try result.get()
    }
}
