import GRDB
import RoundtableCore
import RoundtableKernel

// Rule V8: Between two writes of a publisher lies at least the interval. Changes in between are fetched once, at its end, so the last state
// always arrives. A failure is reported, and retried after 250 ms, 500 ms and so on, at most 1 min; the file stays as it was. Suspending,
// closing and `publish` do not wait for the interval.

/// Decides when a publisher fetches: after a change that matters, at most once per interval, and with growing pauses while fetching
/// fails (rule V8).
///
/// It knows neither clocks nor files nor databases.
struct PublishingSchedule {
    enum Action: Equatable {
        case none
        /// Inspect the file, fetch, write; then call `finished`.
        case fetch
        /// Check whether anything has changed; then call `finished`, or do as with `fetch`.
        case check
        /// Call `timeHasCome` at that time.
        case wake(at: Nanoseconds)
    }

    enum Outcome {
        /// The file holds what was fetched.
        case isPublished
        /// Nothing was committed since the last fetch.
        case isUnchanged
        /// Another publisher has written the file meanwhile.
        case isOvertaken
        case hasFailed
        /// The file was not written, because of a suspension.
        case wasCalledOff
    }

    private let interval: Nanoseconds
    private var isDirty = true
    /// Whether there may be a change that was not reported.
    private var isInDoubt = false
    private var isFetching = false
    /// The tables that have changed since the fetch began. Until it ends, it is not known whether they matter.
    private var changedMeanwhile: DatabaseChange.Tables?
    /// The region that the last fetch has read; nil before the first one.
    private var region: DatabaseRegion?
    private var notBefore: Nanoseconds = 0
    /// When `timeHasCome` will be called.
    private var wakeTime: Nanoseconds?
    private var backoff = Self.backoff
    private var timesOvertaken = 0
    private(set) var isSuspended = false
    private(set) var hasEnded = false

    init(interval: Nanoseconds) { self.interval = interval }

    static let backoff = Backoff(.milliseconds(250), upTo: .seconds(60))
    /// How often a publisher whose fetch was overtaken retries immediately.
    static let patience = 100

    mutating func changed(_ tables: DatabaseChange.Tables, at now: Nanoseconds) -> Action {
        if isFetching {
            changedMeanwhile = changedMeanwhile?.union(tables) ?? tables
            return .none
        }
        if tables.mayModify(region) { isDirty = true }
        return next(at: now)
    }

    mutating func timeHasCome(at now: Nanoseconds) -> Action {
        wakeTime = nil
        return next(at: now)
    }

    /// - parameter region: the region that was read; nil when that is not known.
    mutating func finished(_ outcome: Outcome, region: DatabaseRegion?, at now: Nanoseconds) -> Action {
        isFetching = false
        if let region { self.region = region }
        if let changedMeanwhile, changedMeanwhile.mayModify(self.region) { isDirty = true }
        changedMeanwhile = nil
        if case .isOvertaken = outcome { timesOvertaken += 1 } else { timesOvertaken = 0 }
        if outcome != .hasFailed { backoff.succeeded() }
        switch outcome {
        case .isPublished:
            notBefore = now.addingSaturating(interval)
        case .isUnchanged:
            break
        case .isOvertaken:
            isDirty = true
            notBefore = timesOvertaken < Self.patience ? now : now.addingSaturating(max(interval, backoff.shortest))
        case .hasFailed:
            isDirty = true
            notBefore = now.addingSaturating(max(interval, backoff.next()))
        case .wasCalledOff:
            isDirty = true
            // The suspension may not have been reported yet.
            if !isSuspended { notBefore = now.addingSaturating(backoff.shortest) }
        }
        return next(at: now)
    }

    /// Whether a change was reported that is not fetched yet, or may not be.
    var hasNews: Bool { isDirty || changedMeanwhile != nil }

    var isAtRest: Bool { !isDirty && !isInDoubt && !isFetching }

    mutating func suspend() { isSuspended = true }

    /// Resumes fetching, and checks whether anything has changed meanwhile.
    mutating func resume(at now: Nanoseconds) -> Action {
        isSuspended = false
        notBefore = min(notBefore, now.addingSaturating(interval))
        isInDoubt = true
        return next(at: now)
    }

    mutating func end() { hasEnded = true }

    mutating func next(at now: Nanoseconds) -> Action {
        guard isDirty || isInDoubt, !isFetching, !isSuspended, !hasEnded else { return .none }
        if now >= notBefore {
            defer { (isDirty, isInDoubt, isFetching) = (false, false, true) }
            return isDirty ? .fetch : .check
        }
        guard wakeTime != notBefore else { return .none }
        wakeTime = notBefore
        return .wake(at: notBefore)
    }
}

extension DatabaseChange.Tables {
    /// - parameter region: the region that was read; nil when that is not known.
    fileprivate func mayModify(_ region: DatabaseRegion?) -> Bool {
        guard let region else { return true }
        switch self {
        case .fullDatabase: return !region.isEmpty
        case .some(let names): return names.contains { region.isModified(byEventsOfKind: .insert(tableName: $0)) }
        }
    }
}
