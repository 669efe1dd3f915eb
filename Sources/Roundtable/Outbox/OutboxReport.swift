import Foundation

/// What a drain has done.
public struct OutboxReport: Sendable, Hashable {
    /// Commands that were applied.
    public var applied = 0
    /// Commands that were set aside: see ``SharedDatabase/deadLetters()``.
    public var setAside = 0
    /// Tries that failed, and are made again.
    public var failed = 0
    /// Files of commands that were applied before, and were still there.
    public var known = 0
    /// Files that were no whole commands.
    public var damaged = 0
    /// When the next of the commands that have failed is tried again, if any waits for that.
    public var nextTry: Date?

    public init() {}

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
