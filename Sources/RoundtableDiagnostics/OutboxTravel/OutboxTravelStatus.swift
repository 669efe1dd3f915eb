import Foundation
import RoundtableCore
import RoundtableFiles
import RoundtableKernel

/// The way of an outbox's commands to or from another machine, as `roundtable outbox ship` or `roundtable outbox collect` reports it.
///
/// It encodes as JSON with the keys listed here.
public struct OutboxTravelStatus: Codable, Sendable, Equatable {
    public enum Direction: String, Codable, Sendable, CaseIterable {
        /// Commands go to a store.
        case ship
        /// Commands come from a store.
        case collect
    }

    public enum State: String, Codable, Sendable, CaseIterable {
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

    public var direction: Direction
    public var state: State
    /// When this state began.
    public var since: Date
    /// The store, without credentials.
    public var store: String
    /// The process of `roundtable outbox`.
    public var pid: Int32
    /// The version of rclone; nil when it is not known.
    public var version: String?
    /// When the last round that has done its work ended.
    public var lastRound: Date?
    /// The commands that wait on this side.
    public var waiting = 0
    /// The commands that this process has uploaded or handed over.
    public var moved = 0
    /// The commands whose outcome this process has learned.
    public var decided = 0
    /// What is wrong; nil when nothing is.
    public var problem: String?
    /// What to do about the problem.
    public var advice: String?
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
    public var isImpaired: Bool {
        switch state {
        case .starting, .working: problem != nil
        case .failing, .stopped, .abandoned: true
        }
    }

    enum CodingKeys: String, CodingKey {
        case direction, state, since, store, pid, version, waiting, moved, decided, problem, advice, namespace
        case lastRound = "last_round"
        case startTime = "start_time"
    }
}

extension OutboxTravelStatus {
    /// The file in which the process reports (rule Z14).
    package static func file(_ direction: Direction, inOutboxAt path: String) -> SnapshotFile<OutboxTravelStatus> {
        var options = SnapshotFileOptions()
        // It is written after each round, and says nothing after a power cut.
        options.durability = .process
        let url = URL(fileURLWithPath: "\(path)/\(direction.rawValue).status")
        return SnapshotFile(at: url, as: "outbox \(direction.rawValue)", options: options)
    }

    /// The reports in the folder of an outbox, with what is known of their processes now.
    package static func all(inOutboxAt path: String) -> [OutboxTravelStatus] {
        Direction.allCases.compactMap { direction in
            guard case .value(let report, _)? = try? file(direction, inOutboxAt: path).read() else { return nil }
            return report.judged()
        }
    }

    /// Whether the process that has reported lives, as far as this process can see.
    package var isAlive: Bool {
        switch liveness {
        case .alive, .stopped: true
        case .dead, .unknown: false
        }
    }

    private var liveness: Liveness {
        ProcessIdentity(pid: pid, startTime: startTime, namespace: namespace).liveness(seenFrom: .current)
    }

    private func judged() -> OutboxTravelStatus {
        var status = self
        let command = "'roundtable outbox \(direction.rawValue)'"
        switch liveness {
        case .alive, .unknown: break
        case .stopped:
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
