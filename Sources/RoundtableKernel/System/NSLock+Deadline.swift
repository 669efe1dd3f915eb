import Foundation

extension NSLock {
    /// Acquires the lock unless `deadline` passes first.
    ///
    /// - parameter deadline: in ns of the monotonic clock.
    /// - returns: whether the lock was acquired.
    package func lock(until deadline: Nanoseconds) -> Bool {
        let time = deadline.subtractingSaturating(MonotonicClock.now)
        // Foundation on Linux traps at dates that it cannot represent in nanoseconds.
        guard time < 1 << 60 else {
            lock()
            return true
        }
        return lock(before: Date(timeIntervalSinceNow: Double(time) / 1e9))
    }
}
