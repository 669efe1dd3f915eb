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
        var lines: Int
        /// The time up to which `lines` is complete.
        var since: ContinuousClock.Instant
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
        var allowance = refilled(key, at: now)
        defer { allowances[key] = allowance }
        guard allowance.lines > 0 else {
            allowance.omitted += 1
            return .leaveOut(summaryIn: allowance.omitted == 1 ? allowance.since + interval - now : nil)
        }
        allowance.lines -= 1
        defer { allowance.omitted = 0 }
        return .write(omitted: allowance.omitted)
    }

    /// The number of lines that were left out, for a line that says so because no other line with this key has followed; nil when there is
    /// nothing to say, or no line is allowed yet.
    mutating func summary(_ key: String, at now: ContinuousClock.Instant) -> Int? {
        var allowance = refilled(key, at: now)
        defer { allowances[key] = allowance }
        guard allowance.lines > 0, allowance.omitted > 0 else { return nil }
        allowance.lines -= 1
        defer { allowance.omitted = 0 }
        return allowance.omitted
    }

    private mutating func refilled(_ key: String, at now: ContinuousClock.Instant) -> Allowance {
        if allowances.count >= Self.maximumCount { forgetFull(at: now) }
        guard let allowance = allowances[key] else { return Allowance(lines: burst, since: now) }
        return refilled(allowance, at: now)
    }

    private func refilled(_ old: Allowance, at now: ContinuousClock.Instant) -> Allowance {
        var allowance = old
        let passed = max(0, Int((now - allowance.since) / interval))
        allowance.lines += min(passed, burst)
        allowance.since += interval * passed
        if allowance.lines >= burst {
            allowance.lines = burst
            allowance.since = now
        }
        return allowance
    }

    private static let maximumCount = 1000

    /// Forgets the keys that would have the same allowance if they were new.
    private mutating func forgetFull(at now: ContinuousClock.Instant) {
        for (key, allowance) in allowances
        where allowance.omitted == 0 && refilled(allowance, at: now).lines == burst {
            allowances[key] = nil
        }
    }
}
