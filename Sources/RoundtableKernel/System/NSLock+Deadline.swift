import Foundation

extension NSLock {
    /// - parameter deadline: of the monotonic clock.
    /// - returns: whether it was locked before that.
    package func lock(until deadline: Nanoseconds) -> Bool {
        let time = deadline.subtractingSaturating(MonotonicClock.now)
        // Foundation on Linux traps at dates that it cannot tell in nanoseconds.
        guard time < 1 << 60 else {
            lock()
            return true
        }
        return lock(before: Date(timeIntervalSinceNow: Double(time) / 1e9))
    }
}
