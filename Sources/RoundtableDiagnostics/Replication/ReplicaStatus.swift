import Foundation
import RoundtableCore
import RoundtableFiles
import RoundtableKernel

/// A read replica: a database that follows one on another machine, as `roundtable follow` reports it.
///
/// It encodes as JSON with the keys listed here.
public struct ReplicaStatus: Codable, Sendable, Equatable {
    public enum State: String, Codable, Sendable, CaseIterable {
        /// The follower fetches the first state since its start.
        case starting
        /// The follower brings new states.
        case following
        /// The follower reports errors. It tries again by itself.
        case failing
        /// The follower's Litestream has ended. It is started again.
        case ended
        /// The follower is stopped.
        case unresponsive
        /// There is no follower. The database stays at its last state.
        case abandoned
    }

    public var state: State
    /// When this state of affairs began.
    package var since: Date
    /// The URL that is followed, without credentials.
    package var url: String?
    /// The process of `roundtable follow`; nil when there is none.
    package var follower: Int32?
    /// Start time and pid namespace of the follower's process: another one may have got the pid, as in a container that starts again.
    package var followerStart: UInt64?
    package var followerNamespace: UInt64?
    /// The process of Litestream; nil when it does not run.
    package var litestream: Int32?
    /// The version of Litestream.
    package var version: String?
    /// The transaction of the followed database whose state this one has, by Litestream's count, in 16 hexadecimal digits; nil before the
    /// first state.
    package var transaction: String?
    /// The number of the writer's term of which that transaction is (`roundtable promote`); nil before the first promotion. Each term counts
    /// its transactions anew.
    public var term: UInt64?
    /// Tells two terms of one number apart, of which one did not last.
    package var termToken: UInt64?
    /// When that transaction was uploaded, by the clock of the writer's machine; nil when it is not known (yet).
    public var time: Date?
    /// When its state came into this database, by the clock of this machine.
    package var arrived: Date?
    /// The newest transaction that the follower has seen at the URL.
    package var newestTransaction: String?
    /// The number of the term of which the newest transaction is.
    package var newestTerm: UInt64?
    /// When that one was uploaded.
    package var newestTime: Date?
    /// When the follower has looked for the newest transaction.
    package var checked: Date?
    /// What is wrong; nil when nothing is.
    public var problem: String?
    /// What to do about the problem.
    public var advice: String?
    package var causeName: String?
    package var detail: String?
    package var reporter: FileOwner?

    package init(state: State, since: Date, url: String? = nil) {
        self.state = state
        self.since = since
        self.url = url
    }

    /// The follower's process; nil when there is none.
    package var identity: ProcessIdentity? {
        get {
            guard let follower, let followerStart, let followerNamespace else { return nil }
            return ProcessIdentity(pid: follower, startTime: followerStart, namespace: followerNamespace)
        }
        set {
            (follower, followerStart, followerNamespace) = (newValue?.pid, newValue?.startTime, newValue?.namespace)
        }
    }

    /// How much older this state is than the newest that the follower has seen; nil when that is not known.
    public var lag: Duration? {
        guard let newestTransaction, let transaction else { return nil }
        if term == newestTerm, transaction >= newestTransaction { return .zero }
        guard let time, let newestTime else { return nil }
        return max(.zero, Duration(inSeconds: newestTime.timeIntervalSince(time)))
    }

    /// Whether something is wrong.
    public var isImpaired: Bool {
        switch state {
        case .starting, .following: false
        case .failing, .ended, .unresponsive, .abandoned: true
        }
    }

    enum CodingKeys: String, CodingKey {
        case state, since, url, version, transaction, term, time, arrived, checked, problem, advice, detail
        case causeName = "cause"
        case follower = "follower_pid"
        case followerStart = "follower_start"
        case followerNamespace = "follower_namespace"
        case litestream = "litestream_pid"
        case newestTransaction = "newest_transaction"
        case newestTerm = "newest_term"
        case termToken = "term_token"
        case newestTime = "newest_time"
    }
}

extension ReplicaStatus: ProcessReport {
    package typealias Cause = ReplicationCause

    /// The author name of a follower's participant.
    package static let author = "follow"

    /// The file in which the follower of a database reports, and which marks the database as a read replica (rules Q).
    package static func file(
        besideDatabaseAt path: String,
        durability: CommitDurability = .process
    ) -> SnapshotFile<ReplicaStatus> {
        var options = SnapshotFileOptions()
        options.durability = durability
        return SnapshotFile(at: URL(fileURLWithPath: path + ReadReplica.suffix), as: author, options: options)
    }

    /// The state of a read replica.
    ///
    /// It may be called often, in any process that can read the file beside the database, and on any thread.
    ///
    /// - parameter url: the database file.
    /// - returns: nil when the database is no read replica.
    public init?(ofDatabaseAt url: URL) {
        let path = System.resolvedPath(url.path)
        let participants = (try? ControlBlock.open(forDatabaseAt: path, writable: false))?.participants() ?? []
        self.init(ofDatabaseAt: path, participants: participants.map { ParticipantStatus($0) })
    }

    /// - returns: nil when the database is no read replica.
    init?(ofDatabaseAt path: String, participants: [ParticipantStatus]) {
        guard ReadReplica.exists(databasePath: path) else { return nil }
        // What a power cut has damaged still marks the database.
        if let (report, owner) = Self.file(besideDatabaseAt: path).readWithOwner() {
            self = report.quoted(of: owner)
            if let pid = litestream, owner?.runs(pid, program: ReplicationStatus.author) == false { litestream = nil }
        } else {
            self.init(state: .abandoned, since: Date())
        }
        let isReporters = reporter?.runs(follower ?? 0, program: "roundtable") != false
        switch participants.first(where: { $0.pid == follower && $0.author == Self.author })?.liveness {
        case .alive, .unknown: return
        case .stopped:
            guard isReporters else { return }
            state = .unresponsive
            problem = "the follower (pid \(follower ?? 0)) is stopped"
            advice = "Continue it (kill -CONT \(follower ?? 0)), or end it and start 'roundtable follow' again"
        case .dead, nil:
            // Before the first state there is no database, of which the follower would be a participant.
            if transaction == nil, isReporters, identity?.liveness(seenFrom: .current) == .alive { return }
            litestream = nil
            state = .abandoned
            problem = follower.map { "the follower (pid \($0)) has ended" } ?? "there is no follower"
            advice = "Start 'roundtable follow' again, to get new states"
        }
    }
}
