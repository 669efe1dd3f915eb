import Foundation

/// Keeps the opening of connections and inspections from outside apart in time. Connections of one process share one mapping of a
/// `-shm` file, and the first connection decides whether it is writable. An inspection from outside must not write, so if it came
/// first, it would make all other connections read-only.
package enum WalIndexGate {
    private struct State {
        var openings = 0
        /// The number of openings that wait for the end of an inspection.
        var waiting = 0
        var isLookedAt = false
    }
    // nonisolated(unsafe): guarded by `condition`.
    nonisolated(unsafe) private static var state = State()
    private static let condition = NSCondition()

    /// Runs `body`, which opens a connection, while no inspection runs. Openings may overlap and nest, because a configuration
    /// may open a database to prepare another one.
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

    /// Whether an opening waits for the end of an inspection. For tests.
    static var isAwaited: Bool { condition.withLock { state.waiting > 0 } }

    /// Runs `body`, which inspects a database from outside, while no connection is being opened and no other inspection runs.
    ///
    /// - returns: nil when that was not possible within `time`. The caller itself may be opening a connection.
    package static func look<T>(within time: Duration = .seconds(1), _ body: () throws -> T) rethrows -> T? {
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
