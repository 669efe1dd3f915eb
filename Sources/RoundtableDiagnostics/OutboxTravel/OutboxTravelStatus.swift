import Foundation
import RoundtableCore
import RoundtableFiles
import RoundtableKernel

/// The way of an outbox's commands to or from another machine, as `roundtable outbox ship` or `roundtable outbox collect` reports it.
///
/// It encodes as JSON with the keys listed here.
package struct OutboxTravelStatus: Codable, Sendable, Equatable {
    package enum Direction: String, Codable, Sendable, CaseIterable {
        /// Commands go to a store.
        case ship
        /// Commands come from a store.
        case collect
    }

    package enum State: String, Codable, Sendable, CaseIterable {
        /// No round has ended yet.
        case starting
        /// The last round has done its work.
        case working
        /// The last round has failed. It is tried again.
        case failing
        /// The process is stopped.
        case stopped
        /// The process has died.
        case abandoned
    }

    package var direction: Direction
    package var state: State
    /// When this state began.
    package var since: Date
    /// The store, without credentials.
    package var store: String
    /// The process of `roundtable outbox`.
    package var pid: Int32
    /// The version of rclone; nil when it is not known.
    package var version: String?
    /// When the last round that has done its work ended.
    package var lastRound: Date?
    /// The commands that wait on this side.
    package var waiting = 0
    /// The commands that this process has uploaded or handed over.
    package var moved = 0
    /// The commands whose outcome this process has learned.
    package var decided = 0
    /// What is wrong; nil when nothing is.
    package var problem: String?
    /// What to do about the problem.
    package var advice: String?
    /// The user whose file the report is; nil if that is not known, or if it was not read from a file.
    package var reporter: FileOwner?
    /// Whether the process (``pid``) is one of that user; nil if that is not known.
    package var isReporter: Bool?
    /// ``Cause`` as the file has it. A later version may add one.
    package var causeName: String?
    /// What the file says in words beside the cause.
    package var detail: String?
    /// The start time and the pid namespace of the process (``pid``), as the system gives them.
    var startTime: UInt64
    var namespace: UInt64

    package init(_ direction: Direction, store: String, version: String?, at now: Date) {
        let process = ProcessIdentity.current
        self.direction = direction
        state = .starting
        since = now
        self.store = store
        self.version = version
        pid = process.pid
        startTime = process.startTime
        namespace = process.namespace
    }

    /// Whether something is wrong.
    package var isImpaired: Bool {
        switch state {
        case .starting, .working: problem != nil
        case .failing, .stopped, .abandoned: true
        }
    }

    enum CodingKeys: String, CodingKey {
        case direction, state, since, store, pid, version, waiting, moved, decided, problem, advice, detail, namespace
        case causeName = "cause"
        case lastRound = "last_round"
        case startTime = "start_time"
    }
}

extension OutboxTravelStatus: ProcessReport {
    package typealias Cause = OutboxTravelCause

    /// The file in which the process reports (rule Z14).
    package static func file(_ direction: Direction, inOutboxAt path: String) -> SnapshotFile<OutboxTravelStatus> {
        var options = SnapshotFileOptions()
        // It is written after each round, and says nothing after a power cut.
        options.durability = .process
        options.followsLinks = false
        let url = URL(fileURLWithPath: "\(path)/\(direction.rawValue).status")
        return SnapshotFile(at: url, as: "outbox \(direction.rawValue)", options: options)
    }

    /// The reports in the folder of an outbox, with what is known of their processes now.
    package static func all(inOutboxAt path: String) -> [OutboxTravelStatus] {
        Direction.allCases.compactMap { direction in
            file(direction, inOutboxAt: path).readWithOwner().map { $0.judged(direction, $1) }
        }
    }

    /// Whether the process that has reported lives, as far as this process can see.
    package var isAlive: Bool {
        switch liveness {
        case .alive, .stopped: isReporter != false
        case .dead, .unknown: false
        }
    }

    private var liveness: Liveness {
        ProcessIdentity(pid: pid, startTime: startTime, namespace: namespace).liveness(seenFrom: .current)
    }

    /// The report as this process believes it, which blames only a process of the file's owner.
    private func judged(_ direction: Direction, _ owner: FileOwner?) -> OutboxTravelStatus {
        var status = quoted(of: owner)
        status.direction = direction
        status.store = store.claim
        status.version = version?.claim
        let liveness = liveness
        // A pid of another namespace, or of a process that has died, is none of this user's.
        if [.alive, .stopped].contains(liveness) { status.isReporter = owner?.runs(pid, program: "roundtable") }
        let command = "'roundtable outbox \(direction.rawValue)'"
        switch liveness {
        case .alive, .unknown: break
        case .stopped:
            guard status.isReporter == true else { break }
            status.state = .stopped
            status.problem = "the process (pid \(pid)) is stopped"
            status.advice = "Continue it (kill -CONT \(pid)), or end it and start \(command) again"
        case .dead:
            status.state = .abandoned
            status.problem = "the process (pid \(pid)) has died"
            status.advice = "Start \(command) again"
        }
        return status
    }
}
