import Foundation
import RoundtableKernel

extension NSLock {
    /// Acquires the lock unless `deadline` passes first.
    ///
    /// - parameter deadline: in ns of the monotonic clock.
    /// - returns: whether the lock was acquired.
    package func lock(until deadline: Nanoseconds) -> Bool {
        if deadline == .max {
            lock()
            return true
        }
        // pthread_mutex_timedlock(3), which Foundation uses, waits for a time of the system's clock, which may be set back meanwhile.
        while !self.try() {
            let rest = deadline.subtractingSaturating(MonotonicClock.now)
            if rest == 0 { return false }
            MonotonicClock.sleep(min(rest, Self.interval))
        }
        return true
    }

    private static let interval: Nanoseconds = 200_000
}
