import Foundation
import RoundtableCore
import RoundtableFiles
import RoundtableKernel

/// The replication of a database by Litestream (<https://litestream.io>), as `roundtable replicate` supervises it, or as another program
/// runs it.
///
/// It encodes as JSON with the keys listed here.
package struct ReplicationStatus: Codable, Sendable, Equatable {
    package enum State: String, Codable, Sendable, CaseIterable {
        /// Litestream is starting, and has not reached the replica yet.
        case starting
        /// Litestream syncs commits with the replica.
        case replicating
        /// Litestream reports errors, or has replicated nothing for too long. It tries again by itself.
        case failing
        /// Litestream runs, and does not answer, as when its process is stopped, or the replica cannot be reached.
        case unresponsive
        /// Litestream has ended. The supervisor starts it again.
        case ended
        /// The supervisor has died.
        case abandoned
        /// Another program runs Litestream, so only its process is known.
        case unsupervised
    }

    package var state: State
    /// When this state began.
    package var since: Date
    /// The URL of the replica without credentials; nil when it is not known.
    package var url: String?
    /// The number of the term in which this machine is the writer (`roundtable promote`); nil before the first promotion.
    package var term: UInt64?
    /// The process of `roundtable replicate`; nil when there is none.
    package var supervisor: Int32?
    /// The process of Litestream; nil when it does not run.
    package var litestream: Int32?
    /// The version of Litestream.
    package var version: String?
    /// The time of the last sync that Litestream has reported as successful. A sync that finds nothing to upload counts.
    package var lastSync: Date?
    /// What is wrong; nil when nothing is.
    package var problem: String?
    /// What to do about the problem.
    package var advice: String?
    package var causeName: String?
    package var detail: String?
    package var reporter: FileOwner?

    package init(state: State, since: Date, url: String? = nil) {
        self.state = state
        self.since = since
        self.url = url
    }

    /// Whether something is wrong with the replication.
    package var isImpaired: Bool {
        switch state {
        case .starting, .replicating, .unsupervised: false
        case .failing, .unresponsive, .ended, .abandoned: true
        }
    }

    /// Whether this version of Litestream is known to carry an SQLite without the WAL-reset bug (``SQLiteVersion/hasWALResetBug``).
    /// Litestream 0.5.17 carries SQLite 3.53.
    package var hasSafeSQLite: Bool {
        let numbers = (version ?? "").split(separator: ".").compactMap { Int($0) }
        return numbers.count == 3 && (numbers[0], numbers[1], numbers[2]) >= (0, 5, 17)
    }

    enum CodingKeys: String, CodingKey {
        case state, since, url, term, version, problem, advice, detail
        case causeName = "cause"
        case supervisor = "supervisor_pid"
        case litestream = "litestream_pid"
        case lastSync = "last_sync"
    }
}

extension ReplicationStatus: ProcessReport {
    package typealias Cause = ReplicationCause

    package func advice(for cause: ReplicationCause) -> String {
        guard cause == .stopped, let litestream else { return cause.advice }
        return "Continue it (kill -CONT \(litestream)), or end it, and it is started again"
    }

    /// The author name of a supervisor's participant, and the name of Litestream's process.
    package static let author = "litestream"

    /// The file in which the supervisor of a database reports (rules Y).
    package static func file(besideDatabaseAt path: String) -> SnapshotFile<ReplicationStatus> {
        var options = SnapshotFileOptions()
        // It is written every two seconds, and says nothing after a power cut.
        options.durability = .process
        return SnapshotFile(at: URL(fileURLWithPath: path + "-replication"), as: author, options: options)
    }

    /// - Parameters:
    ///   - participants: the participants of the database.
    ///   - readers: the processes that hold the lock of a read mark, by the system's list.
    /// - returns: nil when the database is not replicated, as far as can be seen.
    init?(ofDatabaseAt path: String, participants: [ParticipantStatus], readers: [Int32]) {
        let foreign = readers.first { ProcessTable.name($0) == Self.author }
        guard let (content, owner) = Self.file(besideDatabaseAt: path).readWithOwner() else {
            guard let foreign else { return nil }
            self.init(unsupervised: foreign)
            return
        }
        let report = content.judged(owner)
        let supervisor = participants.first { $0.pid == report.supervisor && $0.author == Self.author }
        switch supervisor?.liveness {
        case .alive, .unknown: self = report
        case .stopped:
            self = report
            guard owner?.runs(report.supervisor ?? 0, program: "roundtable") != false else { return }
            state = .unresponsive
            problem = "the supervisor (pid \(report.supervisor ?? 0)) is stopped"
            advice =
                "Continue it (kill -CONT \(report.supervisor ?? 0)), or end it and start 'roundtable replicate' again"
        case .dead, nil:
            if let foreign, foreign != report.litestream {
                self.init(unsupervised: foreign)
                return
            }
            self = report
            litestream = foreign
            state = .abandoned
            problem = "the supervisor (pid \(report.supervisor ?? 0)) has died"
            advice = "Start 'roundtable replicate' again"
        }
    }

    /// The report as this process believes it.
    private func judged(_ owner: FileOwner?) -> ReplicationStatus {
        var report = self
        // Advice names the process, so only one of the file's owner counts.
        if let pid = litestream, owner?.runs(pid, program: Self.author) == false { report.litestream = nil }
        return report.quoted(of: owner)
    }

    private init(unsupervised pid: Int32) {
        self.init(state: .unsupervised, since: Date())
        litestream = pid
    }
}
