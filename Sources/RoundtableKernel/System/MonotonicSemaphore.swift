import Dispatch
import Synchronization

/// A counting semaphore whose deadlines are those of the monotonic clock.
///
/// On Linux, a `DispatchSemaphore` with a timeout waits for a time of the system's clock (sem_timedwait(3)). If that clock is set back
/// meanwhile, the wait takes longer by as much.
package final class MonotonicSemaphore: Sendable {
    #if canImport(Darwin)
        private let semaphore = DispatchSemaphore(value: 0)

        package init() {}

        package func signal() { semaphore.signal() }

        package func wait() { semaphore.wait() }

        package func wait(until deadline: Nanoseconds) -> Bool {
            let time = min(deadline.subtractingSaturating(MonotonicClock.now), 1 << 60)
            return semaphore.wait(timeout: .now() + .nanoseconds(Int(time))) == .success
        }
    #else
        /// The number of signals that no wait has taken.
        ///
        /// nonisolated(unsafe): the pointer is set once, and freed when the last reference to this object ends.
        nonisolated(unsafe) private let count: UnsafeMutablePointer<Atomic<UInt32>>

        /// The pause after a failed futex wait, in ns. It keeps the waiting thread from spinning.
        private static let pauseAfterFailure: Nanoseconds = 10_000_000

        package init() {
            count = .allocate(capacity: 1)
            count.initialize(to: Atomic(0))
        }

        deinit {
            count.deinitialize(count: 1)
            count.deallocate()
        }

        package func signal() {
            count.pointee.wrappingAdd(1, ordering: .sequentiallyConsistent)
            Futex.wake(count)
        }

        package func wait() { _ = wait(until: .max) }

        /// - returns: whether there was a signal. Otherwise the deadline, in ns of the monotonic clock, has passed.
        package func wait(until deadline: Nanoseconds) -> Bool {
            while true {
                if take() { return true }
                let rest = deadline.subtractingSaturating(MonotonicClock.now)
                if rest == 0 { return false }
                if case .failed = Futex.wait(on: count, while: 0, timeout: rest) {
                    MonotonicClock.sleep(min(rest, Self.pauseAfterFailure))
                }
            }
        }

        private func take() -> Bool {
            var seen = count.pointee.load(ordering: .sequentiallyConsistent)
            while seen > 0 {
                let (exchanged, original) = count.pointee.compareExchange(
                    expected: seen,
                    desired: seen - 1,
                    ordering: .sequentiallyConsistent
                )
                if exchanged { return true }
                seen = original
            }
            return false
        }
    #endif

    /// Waits for a signal for so many nanoseconds.
    ///
    /// - returns: whether there was one.
    package func wait(upTo time: Nanoseconds) -> Bool { wait(until: MonotonicClock.now.addingSaturating(time)) }
}
