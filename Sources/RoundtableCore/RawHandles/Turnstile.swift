import Dispatch
import RoundtableKernel
import Synchronization

/// A lock that is granted in the order of arrival. It does not belong to a thread: any thread may leave it.
final class Turnstile: Sendable {
    private final class Waiter: Sendable {
        let bell = MonotonicSemaphore()
    }

    private struct State {
        var isTaken = false
        var waiters: [Waiter] = []
        /// The waiter to which the turnstile was handed over.
        var next: Waiter?
    }
    private let state = Mutex(State())

    /// Waits until all earlier arrivals have left.
    ///
    /// - Parameters:
    ///   - limit: another condition that ends the wait.
    ///   - check: called first, and each time that the waiter wakes. An error that it throws ends the wait.
    /// - returns: false when the deadline, in ns of the monotonic clock, has passed, or `limit` ends the wait.
    func pass(until deadline: Nanoseconds, limit: (any WaitLimit)?, check: () throws -> Void) throws -> Bool {
        let waiter: Waiter? = state.withLock { state in
            guard state.isTaken else {
                state.isTaken = true
                return nil
            }
            let waiter = Waiter()
            state.waiters.append(waiter)
            return waiter
        }
        do {
            try check()
            guard let waiter else { return true }
            while !isNext(waiter) {
                let now = MonotonicClock.now
                guard now < deadline, limit.map({ now < $0.nextQuestion || $0.mayContinue(at: now) }) ?? true else {
                    giveUp(waiter)
                    return false
                }
                _ = waiter.bell.wait(until: min(deadline, limit?.nextQuestion ?? deadline))
                try check()
            }
            return true
        } catch {
            if let waiter { giveUp(waiter) } else { leave() }
            throw error
        }
    }

    func leave() {
        let next = state.withLock { state in
            state.next = state.waiters.isEmpty ? nil : state.waiters.removeFirst()
            state.isTaken = state.next != nil
            return state.next
        }
        next?.bell.signal()
    }

    /// Wakes all waiters, which then call `check` again.
    func wakeAll() { state.withLock { $0.waiters }.forEach { $0.bell.signal() } }

    private func isNext(_ waiter: Waiter) -> Bool {
        state.withLock { state in
            guard state.next === waiter else { return false }
            state.next = nil
            return true
        }
    }

    private func giveUp(_ waiter: Waiter) {
        let mustLeave = state.withLock { state in
            state.waiters.removeAll { $0 === waiter }
            guard state.next === waiter else { return false }
            state.next = nil
            return true
        }
        if mustLeave { leave() }
    }
}
