import Roundtable

/// What `roundtable-peer` answers: one line of JSON on its standard output.
package struct PeerReply: Codable, Sendable {
    package enum Outcome: String, Codable, Sendable {
        case done
        /// With the error's text as message, and SQLite's extended result code if it has one.
        case failed
        /// The answer of a read-only opening, with the reason as message.
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
    package var diagnosis: Diagnosis?

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
        diagnosis: Diagnosis? = nil
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

/// What a `writeLoop` did. A wait lasts from the call of `write` until its closure runs, inside the transaction.
package struct WriteReport: Codable, Sendable {
    /// Those of this loop.
    package var commits: Int
    package var seconds: Double
    package var errorCount: Int
    /// The first few of them.
    package var errors: [String]
    /// The longest waits in ms, the longest first.
    package var longestWaits: [Double]
    /// Of the whole call of `write`, in µs.
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

    /// In ms.
    package var longestWait: Double { longestWaits.first ?? 0 }
}
