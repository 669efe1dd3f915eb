import RoundtableKernel

/// A busy handler that sleeps for short times, up to a limit for each lock. All connections that wait for a time have it, and none has a busy
/// timeout of SQLite's: where SQLite is built with `SQLITE_ENABLE_SETLK_TIMEOUT`, as on Apple's systems, a connection with a timeout sleeps in
/// the system, and neither `sqlite3_interrupt` nor the suspension gate ends that.
final class TimedBusyHandler: @unchecked Sendable {
    // @unchecked: confined to the connection's queue, where SQLite calls it.

    /// How long it waits for a lock, in ns.
    var limit: Nanoseconds
    private var deadline: Nanoseconds = 0

    private static let backoff = Backoff(.microseconds(50), upTo: .milliseconds(10))

    init(limit: Nanoseconds) { self.limit = limit }

    /// Returns whether SQLite must retry.
    func next(tries: Int) -> Bool {
        let now = MonotonicClock.now
        if tries == 0 { deadline = now.addingSaturating(limit) }
        guard now < deadline else { return false }
        MonotonicClock.sleep(min(Self.backoff.pause(after: tries + 1), deadline - now))
        return true
    }
}
