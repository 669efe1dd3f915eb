import Roundtable

/// A reply of `roundtable-peer`: one line of JSON on its standard output.
package struct PeerReply: Codable, Sendable {
    package enum Outcome: String, Codable, Sendable {
        case done
        /// The command failed. The message is the text of the error, and `code` is SQLite's extended result code, if the error has one.
        case failed
        /// A read-only opening found the database unavailable. The message is the reason.
        case unavailable
    }

    package var outcome: Outcome
    package var message: String?
    package var code: Int32?
    package var number: Int?
    package var report: WriteReport?
    package var moments: [PeerMoment]?
    package var outcomes: [ScheduleOutcome]?
    package var health: WALHealth?
    package var calls: [CheckpointSchedule.Point]?
    package var sharing: SharingReport?
    package var status: DatabaseStatus?
    package var diagnosis: DatabaseDiagnosis?
    package var sweep: SweepReport?

    package init(
        _ outcome: Outcome = .done,
        message: String? = nil,
        code: Int32? = nil,
        number: Int? = nil,
        report: WriteReport? = nil,
        moments: [PeerMoment]? = nil,
        outcomes: [ScheduleOutcome]? = nil,
        health: WALHealth? = nil,
        calls: [CheckpointSchedule.Point]? = nil,
        sharing: SharingReport? = nil,
        status: DatabaseStatus? = nil,
        diagnosis: DatabaseDiagnosis? = nil
    ) {
        self.outcome = outcome
        self.message = message
        self.code = code
        self.number = number
        self.report = report
        self.moments = moments
        self.outcomes = outcomes
        self.health = health
        self.calls = calls
        self.sharing = sharing
        self.status = status
        self.diagnosis = diagnosis
    }
}

/// The result of a `writeLoop`. A wait lasts from the call of `write` until its closure runs inside the transaction.
package struct WriteReport: Codable, Sendable {
    /// The number of commits of this loop.
    package var commits: Int
    package var seconds: Double
    package var errorCount: Int
    /// The first five errors.
    package var errors: [String]
    /// The ten longest waits in ms, the longest first.
    package var longestWaits: [Double]
    /// The median duration of a whole call of `write`, in µs. `latencyP99` is its 99th percentile.
    package var latencyP50: Double
    package var latencyP99: Double

    package init(
        commits: Int,
        seconds: Double,
        errorCount: Int,
        errors: [String],
        longestWaits: [Double],
        latencyP50: Double,
        latencyP99: Double
    ) {
        self.commits = commits
        self.seconds = seconds
        self.errorCount = errorCount
        self.errors = errors
        self.longestWaits = longestWaits
        self.latencyP50 = latencyP50
        self.latencyP99 = latencyP99
    }

    /// The longest wait, in ms.
    package var longestWait: Double { longestWaits.first ?? 0 }
}
