import GRDB
import RoundtableKernel

/// When a publisher fetches: after a change that matters, at most once an interval, later and later while it fails (rule V8).
///
/// Knows neither clocks nor files nor databases.
struct PublishingSchedule {
    enum Action: Equatable {
        case none
        /// Look at the file, fetch, write; then call `finished`.
        case fetch
        /// Look whether anything has changed; then call `finished`, or do as with `fetch`.
        case check
        /// Call `timeHasCome` then.
        case wake(at: Nanoseconds)
    }

    enum Outcome {
        /// The file holds what was fetched.
        case isPublished
        /// Nothing was committed since.
        case isUnchanged
        /// Somebody else has written the file meanwhile.
        case isOvertaken
        case hasFailed
        /// Not written, because of a suspension.
        case wasCalledOff
    }

    private let interval: Nanoseconds
    private var isDirty = true
    /// Something may have changed, and nobody has said so.
    private var isInDoubt = false
    private var isFetching = false
    /// What has changed since the fetch began: nobody knows yet whether that matters.
    private var changedMeanwhile: Change.Tables?
    /// What the last fetch has read; nil until there was one.
    private var region: DatabaseRegion?
    private var notBefore: Nanoseconds = 0
    /// When `timeHasCome` will be called.
    private var wakeTime: Nanoseconds?
    private var failures = 0
    private var timesOvertaken = 0
    private(set) var isSuspended = false
    private(set) var hasEnded = false

    init(interval: Nanoseconds) { self.interval = interval }

    static let longestBackOff: Nanoseconds = 60_000_000_000
    private static let shortestBackOff: Nanoseconds = 250_000_000
    /// So often it tries again at once.
    static let patience = 100

    mutating func changed(_ tables: Change.Tables, at now: Nanoseconds) -> Action {
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

    /// - parameter region: what was read; nil when that is not known.
    mutating func finished(_ outcome: Outcome, region: DatabaseRegion?, at now: Nanoseconds) -> Action {
        isFetching = false
        if let region { self.region = region }
        if let changedMeanwhile, changedMeanwhile.mayModify(self.region) { isDirty = true }
        changedMeanwhile = nil
        if case .isOvertaken = outcome { timesOvertaken += 1 } else { timesOvertaken = 0 }
        if case .hasFailed = outcome { failures += 1 } else { failures = 0 }
        switch outcome {
        case .isPublished:
            notBefore = now.addingSaturating(interval)
        case .isUnchanged:
            break
        case .isOvertaken:
            isDirty = true
            notBefore = timesOvertaken < Self.patience ? now : now.addingSaturating(max(interval, Self.shortestBackOff))
        case .hasFailed:
            isDirty = true
            notBefore = now.addingSaturating(max(interval, backOff))
        case .wasCalledOff:
            isDirty = true
            // Where nobody has said so yet.
            if !isSuspended { notBefore = now.addingSaturating(Self.shortestBackOff) }
        }
        return next(at: now)
    }

    private var backOff: Nanoseconds {
        min(Self.shortestBackOff << Nanoseconds(min(failures - 1, 10)), Self.longestBackOff)
    }

    /// Whether a change was told that is not fetched yet, or may not be.
    var hasNews: Bool { isDirty || changedMeanwhile != nil }

    var isAtRest: Bool { !isDirty && !isInDoubt && !isFetching }

    mutating func suspend() { isSuspended = true }

    /// Something may have changed.
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

extension Change.Tables {
    /// - parameter region: nil for one that is not known.
    fileprivate func mayModify(_ region: DatabaseRegion?) -> Bool {
        guard let region else { return true }
        switch self {
        case .fullDatabase: return !region.isEmpty
        case .some(let names): return names.contains { region.isModified(byEventsOfKind: .insert(tableName: $0)) }
        }
    }
}
