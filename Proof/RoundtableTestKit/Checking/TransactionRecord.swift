/// What one worker recorded of one transaction.
public struct TransactionRecord: Sendable, Hashable, Codable {
    /// What the worker knows of the end of a transaction.
    public enum Outcome: String, Sendable, Codable {
        /// The call returned: the transaction is acknowledged.
        case committed
        /// The call threw an error that promises a rollback.
        case failed
        /// The worker was killed before the call returned, or the error does not say whether the transaction was committed. Both are
        /// possible.
        case unknown
    }

    /// The number of the worker, which is the session of the transaction.
    public var worker: Int
    /// The number of the transaction among those of its worker.
    public var index: Int
    /// When the worker called, in nanoseconds of the monotonic clock, which all processes of a machine share.
    public var began: Int64
    /// When the call returned or threw; nil when the worker did not live to see it.
    public var ended: Int64?
    public var outcome: Outcome
    /// The steps with their results if the transaction was committed; otherwise what was planned.
    public var steps: [Step]

    public init(
        worker: Int,
        index: Int,
        began: Int64,
        ended: Int64?,
        outcome: Outcome = .committed,
        steps: [Step]
    ) {
        self.worker = worker
        self.index = index
        self.began = began
        self.ended = ended
        self.outcome = outcome
        self.steps = steps
    }

    /// The reads of other transactions say nothing.
    var isCommitted: Bool { outcome == .committed }
}

extension TransactionRecord: CustomStringConvertible {
    public var description: String { description(since: 0) }

    /// - parameter start: the moment from which the times count.
    func description(since start: Int64) -> String {
        func seconds(_ time: Int64?) -> String {
            guard let time else { return "?" }
            let microseconds = (time - start) / 1_000
            let fraction = String(microseconds % 1_000_000)
            return "\(microseconds / 1_000_000).\(String(repeating: "0", count: 6 - fraction.count))\(fraction)"
        }
        let steps = steps.map(\.description).joined(separator: "; ")
        return "worker \(worker), transaction \(index), \(outcome) (\(seconds(began)) to \(seconds(ended)) s): \(steps)"
    }
}
