import Foundation
import Roundtable
import RoundtableCore
import RoundtableDiagnostics
import RoundtableKernel

/// Diagnoses a database again and again. What the system shows of processes and files is read at longer intervals than the status.
struct SystemLook {
    private var facts: DatabaseDiagnosis.SystemFacts?
    private var nextFacts: Nanoseconds = 0

    private static let interval: Nanoseconds = 5_000_000_000

    /// - parameter outbox: the folder of the outbox, unless that is beside the database.
    mutating func diagnosis(of status: DatabaseStatus, outboxFolder outbox: URL? = nil) throws -> DatabaseDiagnosis {
        if let facts, MonotonicClock.now < nextFacts { return DatabaseDiagnosis(of: status, facts) }
        let new = try DatabaseDiagnosis.SystemFacts(of: status, outboxFolder: outbox)
        (facts, nextFacts) = (new, MonotonicClock.now + Self.interval)
        return DatabaseDiagnosis(of: status, new)
    }
}
