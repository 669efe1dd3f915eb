import Foundation
import GRDB
import GRDBSQLite
import RoundtableCore
import RoundtableFiles
import RoundtableKernel

extension DatabaseDiagnosis {
    /// Inspects a database from outside, as ``DatabaseStatus/init(ofDatabaseAt:outboxFolder:)`` does, and reports what is wrong and what to do
    /// about it.
    ///
    /// The inspection creates and changes no file, and takes no place in the control block and no turn. If a checkpoint is due, the
    /// inspection is repeated for up to a second, because a participant may be about to make that checkpoint.
    ///
    /// - Parameters:
    ///   - url: the URL of the database file.
    ///   - outbox: the folder of ``SharedDatabase/Options/outboxFolder``; nil: beside the database.
    ///   - check: whether the content is checked, too. This reads the whole file, in one read transaction. While it lasts, the
    ///     WAL cannot start again if other processes write.
    ///   - progress: called repeatedly while the content is checked.
    /// - throws: ``SharedDatabaseError/notAFile(path:reason:)`` when there is no such file; ``OutboxError`` when no outbox can be at that
    ///   place. All other problems are findings.
    public init(
        ofDatabaseAt url: URL,
        outboxFolder outbox: URL? = nil,
        checking check: Check = .none,
        progress: @escaping () -> Void = {}
    ) throws {
        try self.init(ofDatabaseAt: url, outboxFolder: outbox, reading: nil, checking: check, progress: progress)
    }

    /// Inspects a database like ``init(ofDatabaseAt:outboxFolder:checking:progress:)``, and lets `reading` read, too, perhaps several
    /// times: its last reading belongs to the findings.
    package init(
        ofDatabaseAt url: URL,
        outboxFolder outbox: URL?,
        reading: DatabaseStatus.FurtherReading?,
        checking check: Check = .none,
        progress: @escaping () -> Void = {}
    ) throws {
        self.init(path: url.path, findings: [], unknowns: [])
        do {
            var status = try DatabaseStatus(ofDatabaseAt: url, outboxFolder: outbox, reading: reading)
            let folder = try DatabaseStatus.outboxFolder(outbox, besideDatabaseAt: status.path)
            var facts = SystemFacts(of: status, outbox: folder)
            let deadline = MonotonicClock.now + Self.secondLook
            while Self.isDue(status), facts.canCheckpoint, MonotonicClock.now < deadline {
                MonotonicClock.sleep(50_000_000)
                status = try DatabaseStatus(ofDatabaseAt: url, outboxFolder: outbox, reading: reading)
                facts = SystemFacts(of: status, outbox: folder)
            }
            examine(status, facts)
            if check != .none { self.check(try Onlooker(url), check, progress) }
        } catch let error as SharedDatabaseError {
            try refuse(error)
        } catch let error as DatabaseError {
            refuse(error)
        }
    }

    /// How long a due checkpoint is waited for, in nanoseconds.
    private static let secondLook: Nanoseconds = 1_000_000_000

    /// Reports what is wrong according to a status, and to what the system showed at that time or shortly before. Unlike
    /// ``init(ofDatabaseAt:outboxFolder:checking:progress:)``, it does not wait for a checkpoint that is due, and does not report it while a
    /// participant may make it.
    package init(of status: DatabaseStatus, _ facts: SystemFacts) {
        self.init(path: status.path, findings: [], unknowns: [])
        examine(status, facts)
        if facts.canCheckpoint { findings.removeAll { $0.topic == .notCheckpointed } }
    }

    /// The warnings and errors, the worst first.
    package var warnings: [Finding] { findings.filter { $0.severity >= .warning } }

    /// Adds a finding after those of the same severity.
    ///
    /// - parameter location: nil: the database.
    package mutating func find(
        _ topic: Topic,
        _ severity: SharedDatabase.Severity,
        _ message: String,
        at location: String? = nil,
        by processes: [SharingProcess] = [],
        advice: String
    ) {
        findings.append(
            Finding(
                topic: topic,
                severity: severity,
                message: message,
                location: location ?? path,
                processes: processes,
                advice: advice
            )
        )
        // This keeps the order of findings of the same severity, which `sort` does not promise.
        findings = SharedDatabase.Severity.allCases.reversed().flatMap { severity in
            findings.filter { $0.severity == severity }
        }
    }
}
