/// The pauses between attempts that fail: each is twice as long as the one before, up to the longest.
package struct Backoff: Hashable, Sendable {
    package let shortest: Nanoseconds
    package let longest: Nanoseconds
    /// The number of failures in a row.
    package private(set) var failures = 0

    package init(_ shortest: Duration, upTo longest: Duration) {
        self.shortest = shortest.nanoseconds
        self.longest = longest.nanoseconds
    }

    /// The pause after so many failures in a row.
    package func pause(after failures: Int) -> Nanoseconds {
        if shortest == 0 { return 0 }
        let doublings = max(failures, 1) - 1
        return doublings < shortest.leadingZeroBitCount ? min(longest, shortest << UInt64(doublings)) : longest
    }

    /// The pause after the failures so far.
    package var pause: Nanoseconds { pause(after: failures) }

    /// Counts a failure, and returns the pause after it.
    package mutating func next() -> Nanoseconds {
        failures &+= 1
        return pause
    }

    package mutating func succeeded() { failures = 0 }
}
