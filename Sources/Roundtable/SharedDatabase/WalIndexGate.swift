import Foundation

/// Connections of one process share one mapping of a `-shm` file, and the first one decides whether it may be written:
/// opened by a look from outside, which must not write, it would make all others read-only. So the two exclude each other
/// in time.
enum WalIndexGate {
    private struct State {
        var openings = 0
        /// Openings that wait for the look to end.
        var waiting = 0
        var isLookedAt = false
    }
    // nonisolated(unsafe): guarded by `condition`.
    nonisolated(unsafe) private static var state = State()
    private static let condition = NSCondition()

    /// Connections are opened at the same time, and inside of one another: a configuration may open a database to prepare another one.
    static func open<T>(_ body: () throws -> T) rethrows -> T {
        condition.withLock {
            state.waiting += 1
            while state.isLookedAt { condition.wait() }
            state.waiting -= 1
            state.openings += 1
        }
        defer {
            condition.withLock {
                state.openings -= 1
                condition.broadcast()
            }
        }
        return try body()
    }

    /// Whether an opening waits for a look to end. For tests.
    static var isAwaited: Bool { condition.withLock { state.waiting > 0 } }

    /// Looks, one at a time.
    ///
    /// - returns: nil when connections were being opened for all of this time, one of them perhaps by the caller.
    static func look<T>(within time: Duration = .seconds(1), _ body: () throws -> T) rethrows -> T? {
        let deadline = Date(timeIntervalSinceNow: time / .seconds(1))
        let isFree = condition.withLock {
            while state.isLookedAt || state.openings > 0 {
                guard condition.wait(until: deadline) else { return false }
            }
            state.isLookedAt = true
            return true
        }
        guard isFree else { return nil }
        defer {
            condition.withLock {
                state.isLookedAt = false
                condition.broadcast()
            }
        }
        return try body()
    }
}
