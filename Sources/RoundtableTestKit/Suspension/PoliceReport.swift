/// What came of many suspensions.
public struct PoliceReport: Codable, Sendable {
    /// Of the random moments.
    public let seed: UInt64
    public var freezes = 0
    public var released = 0
    /// Freezes with at least one conviction.
    public var convicted = 0
    /// How many of the freezes broke a rule.
    public var convictedByRule: [String: Int] = [:]
    /// All of them, in order.
    public var convictions: [Conviction] = []
    /// Freezes of which a process was told before.
    public var notified = 0
    /// Freezes to which a process answered that it is ready.
    public var answered = 0
    /// Freezes that an assertion put off.
    public var postponed = 0
    /// … and that came in spite of it, as its time was up.
    public var expired = 0
    /// In seconds, for the whole.
    public var seconds = 0.0
    /// In seconds, the longest of the answers, assertions, stops and examinations.
    public var longestAnswer = 0.0
    public var longestAssertion = 0.0
    public var longestStop = 0.0
    public var longestExamination = 0.0

    public init(seed: UInt64) { self.seed = seed }

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
        longestAnswer = max(longestAnswer, verdict.answered ?? 0)
        longestAssertion = max(longestAssertion, verdict.assertionTime)
        longestStop = max(longestStop, verdict.stopping)
        longestExamination = max(longestExamination, verdict.examining)
    }
}

extension PoliceReport: CustomStringConvertible {
    public var description: String {
        let rules = convictedByRule.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", ")
        let text = "\(convicted) of \(freezes) freezes convicted\(rules.isEmpty ? "" : " (\(rules))")"
        return "\(text), seed 0x\(String(seed, radix: 16))\(convictions.first.map { "; first: \($0)" } ?? "")"
    }
}
