import RoundtableTestSupport

/// What came of one point.
struct SweepResult: Sendable {
    enum Outcome: String, Sendable, CaseIterable {
        /// The process died at the call.
        case killed
        /// The operation succeeded in spite of the error.
        case absorbed
        /// The operation failed with an error.
        case failed
        /// The operation did not make this call this time.
        case missed
    }

    var outcome: Outcome
    /// What must not be; empty when all is well.
    var problems: [String] = []
    /// The time until the first write of another process, in ms.
    var milliseconds: Double = 0
    /// The error of the operation.
    var error: String?
}

/// The counts of one operation.
struct SweepCounts: Codable, Sendable {
    var operation: String
    /// The number of recorded calls: of the process alone and beside another, by door.
    var calls: [String: Int] = [:]
    var killPoints = 0
    var killsTaken = 0
    var errorPoints = 0
    var errorsTaken = 0
    var absorbed = 0
    var failed = 0
    var missed = 0
    var wrong = 0
    var longestMilliseconds = 0.0
}

struct SweepSummary: Codable, Sendable {
    var seed: String
    var seconds: Double
    var operations: [SweepCounts]
    var failures: [Failure]
    var missed: [String]

    struct Failure: Codable, Sendable {
        var point: String
        var call: String
        var problems: [String]
    }
}
