/// How many lines a log gets: for each key, some at once, and then one after each interval. It is a pure value.
struct LogRateLimit {
    enum Decision: Equatable {
        /// Write the line.
        ///
        /// - omitted: the number of lines that were left out since the last line with this key.
        case write(omitted: Int)
        /// Leave the line out.
        ///
        /// - summaryIn: if this is the first line that is left out: when to call `summary`.
        case leaveOut(summaryIn: Duration?)
    }

    private struct Allowance {
        /// When all lines are allowed again: each line that is written moves this by one interval.
        var full: ContinuousClock.Instant
        var omitted = 0
    }

    private let burst: Int
    private let interval: Duration
    private var allowances: [String: Allowance] = [:]

    /// - Parameters:
    ///   - burst: how many lines are written at once.
    ///   - interval: how long it takes until one more line is allowed.
    init(burst: Int = 10, interval: Duration = .seconds(60)) {
        self.burst = burst
        self.interval = interval
    }

    /// The number of keys that are remembered.
    var count: Int { allowances.count }

    mutating func admit(_ key: String, at now: ContinuousClock.Instant) -> Decision {
        if let omitted = take(key, at: now) { return .write(omitted: omitted) }
        allowances[key]?.omitted += 1
        guard let allowance = allowances[key], allowance.omitted == 1 else { return .leaveOut(summaryIn: nil) }
        return .leaveOut(summaryIn: allowance.full - interval * (burst - 1) - now)
    }

    /// The number of lines that were left out, for a line that says so because no other line with this key has followed; nil when there is
    /// nothing to say, or no line is allowed yet.
    mutating func summary(_ key: String, at now: ContinuousClock.Instant) -> Int? {
        guard let allowance = allowances[key], allowance.omitted > 0 else { return nil }
        return take(key, at: now)
    }

    /// Counts a line as written.
    ///
    /// - returns: the number of lines that were left out before; nil when no line is allowed.
    private mutating func take(_ key: String, at now: ContinuousClock.Instant) -> Int? {
        // Those that are forgotten would have the same allowance if they were new.
        if allowances.count >= Self.maximumCount {
            allowances = allowances.filter { $0.value.omitted > 0 || $0.value.full > now }
        }
        let allowance = allowances[key] ?? Allowance(full: now)
        let full = max(allowance.full, now)
        guard full - now <= interval * (burst - 1) else { return nil }
        allowances[key] = Allowance(full: full + interval)
        return allowance.omitted
    }

    private static let maximumCount = 1000
}
