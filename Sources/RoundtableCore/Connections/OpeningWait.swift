import GRDB
import RoundtableGate
import RoundtableKernel
import Synchronization

// Rule W9: Opening a connection waits for processes that create the database, switch it to WAL, recover it, or close it as the last one. No
// busy handler waits for such a lock, so the whole opening is repeated, with pauses of 0.5 to 20 ms, until the busy timeout (for setting
// up, the setup timeout; without a timeout, 5 s) has passed or the gate closes. The error then names the process that holds the lock and
// how long the opening has waited; an error that names no time has not waited.

/// How long a connection that is being opened waits for other processes that create, recover, switch or close the database (rule W9).
///
/// A busy handler is not enough. A connection may have none, SQLite does not call it for every such lock, and a handler that has
/// refused once is not called again until the next statement begins. So an opening that fails with `SQLITE_BUSY` is retried as a
/// whole.
struct OpeningWait {
    let path: String
    let timeout: Nanoseconds
    /// Ends the wait when it closes. nil for a connection that no gate guards.
    var gate: SuspensionGate?

    /// The longest timeout in seconds.
    static let longestTimeout = 2_000_000.0

    /// Opens a connection with the busy mode of `configuration`. While it is being opened, its timeout is what remains of the
    /// wait.
    ///
    /// - throws: what the last attempt throws. `SQLITE_BUSY` names the lock's owner and the time that passed.
    func queue(_ configuration: Configuration, _ open: (Configuration) throws -> DatabaseQueue) throws -> DatabaseQueue
    {
        let began = MonotonicClock.now
        let deadline = began.addingSaturating(timeout)
        // Whether the callback has ended the wait. SQLite asks on the connection's queue, while the thread that opens waits for it.
        nonisolated(unsafe) var hasRefused = false
        var backoff = Backoff(.microseconds(500), upTo: .milliseconds(20))
        while true {
            do {
                var opening = configuration
                let limit: Nanoseconds
                switch configuration.busyMode {
                case .callback(let callback):
                    opening.busyMode = .callback { tries in
                        let mayContinue = callback(tries)
                        if !mayContinue { hasRefused = true }
                        return mayContinue
                    }
                    return try open(opening)
                case .immediateError: limit = 0
                case .timeout(let seconds): limit = Nanoseconds(seconds * 1e9)
                }
                let handler = TimedBusyHandler(limit: deadline.subtractingSaturating(MonotonicClock.now))
                opening.busyMode = .callback { handler.next(tries: $0) }
                let queue = try open(opening)
                queue.inDatabase { _ in handler.limit = limit }
                return queue
            } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
                if let gate, gate.isClosed {
                    gate.hasGivenUp.store(true, ordering: .releasing)
                    throw error
                }
                let now = MonotonicClock.now
                guard now < deadline, !hasRefused else {
                    throw error.namingLock(on: path, waited: now - began)
                }
                MonotonicClock.sleep(min(backoff.next(), deadline - now))
            }
        }
    }
}
