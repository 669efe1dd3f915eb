/// The settings that determine how a participant waits for the turn and how long it keeps it.
package struct TurnSettings: Sendable, Equatable {
    /// The priority in the queue; 0 is the most urgent.
    package var priority: UInt8
    package var slice: Nanoseconds
    package var patience: Nanoseconds

    /// How long a participant keeps the turn while others wait, unless it says otherwise (rule T4).
    package static let defaultSlice: Nanoseconds = 2_000_000

    /// How long a participant waits without progress before it looks at the holder, unless it says otherwise (rule T8).
    package static let defaultPatience: Nanoseconds = 100_000_000

    package init(priority: UInt8, slice: Nanoseconds = defaultSlice, patience: Nanoseconds = defaultPatience) {
        self.priority = priority
        self.slice = min(slice, Self.longestSlice)
        self.patience = min(max(patience, 1_000_000), Self.longest)
    }

    /// The longest patience. Longer values are cut to it, so that sums of times do not overflow.
    private static let longest: Nanoseconds = 3_600_000_000_000

    /// The longest slice. A slice that is announced for longer is garbage (rules G2, T5).
    package static let longestSlice: Nanoseconds = 1_000_000_000

    /// The time after which waiting raises the priority by one level (rule T3).
    package static let ageing: Nanoseconds = 100_000_000

    /// Transactions with shorter pauses between them are a burst (rule T5).
    var burstGap: Nanoseconds { slice / 8 }
}
