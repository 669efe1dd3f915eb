/// What came of one suspension.
public struct Verdict: Codable, Sendable, Equatable {
    public enum Outcome: String, Codable, Sendable {
        /// It held nothing that it must not hold.
        case released
        case convicted
        /// It ended before it could be looked at.
        case gone
    }

    public var outcome = Outcome.gone
    public var convictions: [Conviction] = []
    /// How many processes were looked at: the process, and its descendants.
    public var processes = 0
    /// How many of them were given notice, by message or signal.
    public var notified = 0
    /// In seconds, from the notice until the last of them answered that it is ready to be frozen; nil when none did.
    public var answered: Double?
    /// The names of the assertions that put the freeze off.
    public var assertions: [String] = []
    /// In seconds, how long they put it off.
    public var assertionTime = 0.0
    /// An assertion outlasted its time, and did not prevent the freeze.
    public var isExpired = false
    /// In seconds, from the notice until it was stopped for good: the time that it had.
    public var frozen = 0.0
    /// In seconds, from the first SIGSTOP until no thread ran any more.
    public var stopping = 0.0
    /// In seconds, how long it took to look at all files and locks.
    public var examining = 0.0
}

extension Verdict: CustomStringConvertible {
    public var description: String {
        switch outcome {
        case .released: "released"
        case .gone: "gone before it was frozen"
        case .convicted: convictions.map(\.description).joined(separator: "; ")
        }
    }
}
