import RoundtableKernel

/// The results of many suspensions, added up.
public struct PoliceReport: Codable, Sendable {
    /// The seed of the random moments.
    public let seed: UInt64
    /// The number of freezes that were judged.
    public var freezes = 0
    /// The number of freezes without a conviction.
    public var released = 0
    /// Freezes with at least one conviction.
    public var convicted = 0
    /// For each rule, by its raw value: the number of freezes with a conviction by it.
    public var convictedByRule: [String: Int] = [:]
    /// All convictions, in order.
    public var convictions: [Conviction] = []
    /// Freezes of which at least one process had notice.
    public var notified = 0
    /// Freezes for which at least one process answered that it was ready.
    public var answered = 0
    /// Freezes that an assertion delayed.
    public var postponed = 0
    /// Freezes that an assertion delayed, but that came when the time of the assertion was up.
    public var expired = 0
    /// The duration of the patrol.
    public var duration: Duration { Duration(inSeconds: seconds) }
    package var seconds = 0.0
    /// The longest ``Verdict/answered``.
    public var longestAnswer: Duration { Duration(inSeconds: longestAnswerSeconds) }
    package var longestAnswerSeconds = 0.0
    /// The longest ``Verdict/assertionTime``.
    public var longestAssertion: Duration { Duration(inSeconds: longestAssertionSeconds) }
    package var longestAssertionSeconds = 0.0
    /// The longest ``Verdict/stopping``.
    public var longestStop: Duration { Duration(inSeconds: longestStopSeconds) }
    package var longestStopSeconds = 0.0
    /// The longest ``Verdict/examining``.
    public var longestExamination: Duration { Duration(inSeconds: longestExaminationSeconds) }
    package var longestExaminationSeconds = 0.0

    public init(seed: UInt64) { self.seed = seed }

    /// Adds the result of one suspension. A process that ended before it was frozen does not count.
    public mutating func add(_ verdict: Verdict) {
        guard verdict.outcome != .gone else { return }
        freezes += 1
        if verdict.outcome == .convicted { convicted += 1 } else { released += 1 }
        for rule in Set(verdict.convictions.map(\.rule)) { convictedByRule[rule.rawValue, default: 0] += 1 }
        convictions += verdict.convictions
        if verdict.notified > 0 { notified += 1 }
        if verdict.answered != nil { answered += 1 }
        if !verdict.assertions.isEmpty { postponed += 1 }
        if verdict.isExpired { expired += 1 }
        longestAnswerSeconds = max(longestAnswerSeconds, verdict.answeredSeconds ?? 0)
        longestAssertionSeconds = max(longestAssertionSeconds, verdict.assertionSeconds)
        longestStopSeconds = max(longestStopSeconds, verdict.stoppingSeconds)
        longestExaminationSeconds = max(longestExaminationSeconds, verdict.examiningSeconds)
    }
}

extension PoliceReport: CustomStringConvertible {
    public var description: String {
        let rules = convictedByRule.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", ")
        let text = "\(convicted) of \(freezes) freezes convicted\(rules.isEmpty ? "" : " (\(rules))")"
        return "\(text), seed 0x\(String(seed, radix: 16))\(convictions.first.map { "; first: \($0)" } ?? "")"
    }
}
