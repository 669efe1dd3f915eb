import Foundation
import RoundtableKernel

/// A process that has a database open: a participant, or a process that does not use Roundtable.
public struct SharingProcess: Codable, Sendable, Equatable {
    public enum Liveness: String, Codable, Sendable {
        case alive
        /// The process was stopped by a signal, a debugger, or the system.
        case stopped
        case dead
        /// The system does not report it, or it was not determined.
        case unknown
    }

    /// The process id; for a participant, in its own pid namespace (pid_namespaces(7)).
    public var pid: Int32
    /// Whether that pid namespace differs from the one of the inspecting process.
    public var isInOtherPIDNamespace: Bool
    /// The author of a participant, or the program of another process; nil when the system does not report it.
    public var name: String?
    /// Whether this is a participant. Other processes, such as the `sqlite3` shell or a participant of another control block, do not take
    /// turns with the participants.
    public var isParticipant: Bool
    public var liveness: Liveness

    package init(
        pid: Int32,
        isInOtherPIDNamespace: Bool = false,
        name: String? = nil,
        isParticipant: Bool,
        liveness: Liveness = .unknown
    ) {
        self.pid = pid
        self.isInOtherPIDNamespace = isInOtherPIDNamespace
        self.name = name
        self.isParticipant = isParticipant
        self.liveness = liveness
    }

    enum CodingKeys: String, CodingKey {
        case pid, name, liveness
        case isInOtherPIDNamespace = "in_other_pid_namespace"
        case isParticipant = "is_participant"
    }
}

extension SharingProcess {
    /// Whether this is the participant. The name is compared, too, because containers often have processes of the same pid.
    package func isSame(as participant: ParticipantStatus) -> Bool {
        (pid, isInOtherPIDNamespace) == (participant.pid, participant.isInOtherPIDNamespace)
            && (name ?? participant.author) == participant.author
    }
}

extension SharingProcess: CustomStringConvertible {
    package var pidText: String { ProcessTable.description(ofPID: pid, isElsewhere: isInOtherPIDNamespace) }

    /// The description, as `'widget' (pid 12, stopped)`.
    public var description: String {
        let quoted = name.map { "'\($0)' " } ?? ""
        let condition = liveness == .alive ? "" : ", \(liveness)"
        return "\(quoted)(\(pidText)\(condition))"
    }
}

extension SharingProcess.Liveness {
    package init(_ liveness: Liveness) {
        switch liveness {
        case .alive: self = .alive
        case .stopped: self = .stopped
        case .dead: self = .dead
        case .unknown: self = .unknown
        }
    }
}

extension SharingProcess {
    init(_ participant: ParticipantRecord) {
        self.init(
            pid: participant.pid,
            isInOtherPIDNamespace: participant.isElsewhere,
            name: participant.author,
            isParticipant: true,
            liveness: SharingProcess.Liveness(participant.liveness)
        )
    }

    package init(pid: Int32, among participants: [ParticipantRecord]) {
        if let participant = participants.first(where: { $0.isProcess(pid) }) {
            self.init(participant)
        } else {
            self.init(
                pid: pid,
                name: ProcessTable.name(pid),
                isParticipant: false,
                liveness: ProcessTable.entry(pid).map { $0.isStopped ? .stopped : $0.isZombie ? .dead : .alive }
                    ?? .unknown
            )
        }
    }
}
