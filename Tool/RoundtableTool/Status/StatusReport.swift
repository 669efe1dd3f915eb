import Foundation
import Roundtable
import RoundtableDiagnostics
import RoundtableJobs

/// The status of a database with that of its jobs, and with what is wrong. It encodes as one object.
struct StatusReport: Encodable {
    let status: DatabaseStatus
    /// nil when the database has no tables of jobs, or they cannot be read.
    let jobs: JobsStatus?
    /// What `doctor` warns of, and errors, the worst first.
    let warnings: [DatabaseDiagnosis.Finding]

    /// - throws: the errors of `DatabaseStatus(ofDatabaseAt:outboxFolder:)`.
    init(ofDatabaseAt url: URL, outboxFolder: URL?, _ system: inout SystemLook) throws {
        let reading = JobsReading()
        var status = try DatabaseStatus(ofDatabaseAt: url, outboxFolder: outboxFolder, reading: reading.further)
        status.unknowns += reading.unknowns
        self.status = status
        jobs = reading.status
        var diagnosis = try system.diagnosis(of: status, outboxFolder: outboxFolder)
        if let jobs { JobsFindings(jobs: jobs).add(to: &diagnosis) }
        warnings = diagnosis.warnings
    }

    private enum CodingKeys: CodingKey { case jobs, warnings }

    func encode(to encoder: any Encoder) throws {
        try status.encode(to: encoder)
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encodeIfPresent(jobs, forKey: .jobs)
        try container.encode(warnings, forKey: .warnings)
    }
}
