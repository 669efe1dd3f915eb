import Foundation

/// The result of a drain.
public struct OutboxReport: Sendable, Hashable {
    /// The number of commands that were applied.
    public var applied = 0
    /// The number of commands that were set aside: see ``DatabaseOutbox/deadLetters()``.
    public var setAside = 0
    /// The number of tries that failed, and are made again.
    public var failed = 0
    /// The number of commands that had been decided before, and whose files still existed.
    public var known = 0
    /// The number of files that were not whole commands.
    public var damaged = 0
    /// When the drain looks again, for a command that waits for that time or a file that cannot be read yet; nil if there is neither.
    public var nextTry: Date?

    package init() {}

    static func + (a: OutboxReport, b: OutboxReport) -> OutboxReport {
        var sum = a
        sum.applied += b.applied
        sum.setAside += b.setAside
        sum.failed += b.failed
        sum.known += b.known
        sum.damaged += b.damaged
        if let date = b.nextTry { sum.waits(until: date) }
        return sum
    }

    mutating func waits(until date: Date) { nextTry = min(nextTry ?? date, date) }
}
