import Foundation
import Synchronization

/// Ctrl-C and `kill`, for a run that has processes and gigabytes to clear away: it ends as if it had failed. The second time, the
/// program ends at once.
enum Interruption {
    struct Interrupted: Error, CustomStringConvertible {
        var description: String { "interrupted" }
    }

    private static let isRequested = Atomic(false)
    private static let signals = [SIGINT, SIGTERM]

    /// From now on, this program ends where it calls ``check()`` or ``sleep(until:)``.
    static func arm() {
        // Initialized here, and not in the handler.
        isRequested.store(false, ordering: .relaxed)
        for number in signals {
            signal(number) { number in
                Interruption.isRequested.store(true, ordering: .relaxed)
                signal(number, SIG_DFL)
            }
        }
    }

    static func check() throws {
        if isRequested.load(ordering: .relaxed) { throw Interrupted() }
    }

    static func sleep(until end: Nanoseconds) throws {
        while Clock.now < end {
            try check()
            Clock.sleep(until: min(end, Clock.now + 100_000_000))
        }
        try check()
    }
}
