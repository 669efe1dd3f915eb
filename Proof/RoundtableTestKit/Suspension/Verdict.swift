import RoundtableKernel

/// The result of one suspension.
public struct Verdict: Codable, Sendable, Equatable {
    /// The outcome of a suspension.
    public enum Outcome: String, Codable, Sendable {
        /// The process held no forbidden lock.
        case released
        /// At least one process held a forbidden lock.
        case convicted
        /// The process ended before it could be inspected.
        case gone
    }

    /// The outcome of this suspension.
    public var outcome = Outcome.gone
    /// The forbidden locks that were found.
    public var convictions: [Conviction] = []
    /// The number of inspected processes: the process and its descendants.
    public var processes = 0
    /// The number of processes that had notice, by message or signal.
    public var notified = 0
    /// The time from the notice until the last process answered that it was ready to be frozen; nil when none answered.
    public var answered: Duration? { answeredSeconds.map(Duration.init(inSeconds:)) }
    package var answeredSeconds: Double?
    /// The names of the assertions that delayed the freeze.
    public var assertions: [String] = []
    /// How long assertions delayed the freeze.
    public var assertionTime: Duration { Duration(inSeconds: assertionSeconds) }
    package var assertionSeconds = 0.0
    /// Whether the process was frozen while it held an assertion, because the assertions' time was up.
    public var isExpired = false
    /// The time from the notice until the SIGSTOP that froze the process: the time that the process had to prepare.
    public var frozen: Duration { Duration(inSeconds: frozenSeconds) }
    package var frozenSeconds = 0.0
    /// The time from the SIGSTOP that froze the process until no thread ran.
    public var stopping: Duration { Duration(inSeconds: stoppingSeconds) }
    package var stoppingSeconds = 0.0
    /// How long it took to inspect all files and locks.
    public var examining: Duration { Duration(inSeconds: examiningSeconds) }
    package var examiningSeconds = 0.0
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
