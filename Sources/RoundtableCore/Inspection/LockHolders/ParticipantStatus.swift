import Foundation
import RoundtableKernel

/// One open `SharedDatabase` in one process. In JSON, times are in seconds.
public struct ParticipantStatus: Codable, Sendable, Equatable {
    public enum Role: String, Codable, Sendable {
        case readWrite = "read_write"
        case readOnly = "read_only"
        case unknown
    }

    public enum State: String, Codable, Sendable {
        /// It is taking its place.
        case joining
        case present
        /// It is creating or migrating the database, or waits to.
        case settingUp = "setting_up"
        /// It takes no locks, since it may be frozen.
        case suspended
    }

    /// The process id in the process's own pid namespace (pid_namespaces(7)).
    public var pid: Int32
    /// Whether that namespace is another one than that of the inspecting process, as in another container. Whether the participant is
    /// stopped is then not known.
    public var isInOtherPIDNamespace = false
    public var author: String
    public var role: Role
    public var state: State
    /// Whether its writes are refused, because another program has applied a migration that it does not know
    /// (``SharedDatabase/Options/newerSchemaPolicy``). It shows this from its next access after the migration on.
    public var refusesWrites: Bool { isRefusingWrites == true }
    /// nil: no, or not known, as in recordings of earlier versions.
    package var isRefusingWrites: Bool?
    public var liveness: SharingProcess.Liveness
    public var hasTurn: Bool
    /// How long it has been waiting for its turn; nil when it is not waiting.
    public var waiting: Duration? { waitingSeconds.map(Duration.init(inSeconds:)) }
    package var waitingSeconds: Double?
    /// How long it has been writing; nil when it is not writing.
    public var writing: Duration? { writingSeconds.map(Duration.init(inSeconds:)) }
    package var writingSeconds: Double?
    /// Where in the code it last began to write; nil when it never did, or when this is not known.
    public var callSite: String?
    public var turnsTaken: Int
    /// The longest wait for its turn, or for SQLite's lock within it, which programs that take no turns may hold.
    public var longestWait: Duration { Duration(inSeconds: longestWaitSeconds) }
    package var longestWaitSeconds: Double
    public var joinedAt: Date
    /// Whether it has other files open than those that are in their places now, because these were replaced, removed or moved
    /// (``SharedDatabaseError/fileLost(path:_:)``). What it writes goes where nobody else sees it, until it finds out.
    public var isOfOtherFile: Bool { hasOtherFile == true }
    /// nil: no, or not known.
    package var hasOtherFile: Bool?
    /// The oldest read that is under way, that of a snapshot included; nil when it does not read.
    public var oldestRead: Read?

    /// The start time of the process, which distinguishes it from others with the same pid.
    package var startTime: UInt64 = 0
    /// The inode of the folder whose commands it applies; 0: none.
    package var commandsFolder: UInt64 = 0
    /// Its owner word in the control block, which its records of the change ring carry too; nil when it is not known.
    package var owner: OwnerWord?

    enum CodingKeys: String, CodingKey {
        case pid, author, role, state, liveness
        case isInOtherPIDNamespace = "in_other_pid_namespace"
        case isRefusingWrites = "refuses_writes"
        case hasTurn = "has_turn"
        case waitingSeconds = "waiting_s"
        case writingSeconds = "writing_s"
        case callSite = "call_site"
        case turnsTaken = "turns_taken"
        case longestWaitSeconds = "longest_wait_s"
        case joinedAt = "joined_at"
        case oldestRead = "oldest_read"
        case hasOtherFile = "of_other_file"
    }
}

extension ParticipantStatus {
    /// A read that is under way, or the moment that a ``SharedDatabaseSnapshot`` stays at.
    public struct Read: Codable, Sendable, Equatable {
        /// How long it has lasted.
        public var age: Duration { Duration(inSeconds: ageSeconds) }
        package var ageSeconds: Double
        /// How many frames of the WAL no checkpoint can copy into the database file before it ends; nil where
        /// ``DatabaseStatus/unknowns`` says why.
        public var heldFrames: Int?
        /// Whether it lasts too long, by the default ``LongRead/Limit``: the read should end, the snapshot advance.
        public var isPastLimit: Bool
        /// Where in the code it began; nil when this is not known.
        public var callSite: String?

        package init(age: Duration, heldFrames: Int?, isPastLimit: Bool, callSite: String?) {
            ageSeconds = age.inSeconds
            self.heldFrames = heldFrames
            self.isPastLimit = isPastLimit
            self.callSite = callSite
        }

        enum CodingKeys: String, CodingKey {
            case ageSeconds = "age_s"
            case heldFrames = "held_frames"
            case isPastLimit = "is_past_limit"
            case callSite = "call_site"
        }
    }
}

extension ParticipantStatus {
    /// The participant, as findings name it.
    package var party: SharingProcess {
        SharingProcess(
            pid: pid,
            isInOtherPIDNamespace: isInOtherPIDNamespace,
            name: author,
            isParticipant: true,
            liveness: liveness
        )
    }

    /// The author and the pid, as `'app' (pid 17)`.
    package var name: String { "'\(author)' (\(pidText))" }
    package var pidText: String { ProcessTable.description(ofPID: pid, isElsewhere: isInOtherPIDNamespace) }

    /// Whether the process with this pid, as it is seen here, is the participant's.
    package func isProcess(_ seen: Int32) -> Bool {
        ProcessTable.isProcess(seen, pid, startTime: startTime, isElsewhere: isInOtherPIDNamespace)
    }
}

extension ParticipantStatus {
    /// - parameter files: the files that are in their places now; nil: not compared.
    package init(_ snapshot: ParticipantRecord, in files: FileStamps? = nil) {
        self.init(
            pid: snapshot.pid,
            isInOtherPIDNamespace: snapshot.isElsewhere,
            author: snapshot.author,
            role: Role(snapshot.role),
            state: State(snapshot.state),
            isRefusingWrites: snapshot.refusesWrites ? true : nil,
            liveness: SharingProcess.Liveness(snapshot.liveness),
            hasTurn: snapshot.hasTurn,
            waitingSeconds: snapshot.waiting.map { TimeInterval($0) / 1e9 },
            writingSeconds: snapshot.writing.map { TimeInterval($0) / 1e9 },
            callSite: snapshot.callSite,
            turnsTaken: Int(clamping: snapshot.turnsTaken),
            longestWaitSeconds: TimeInterval(snapshot.longestWait) / 1e9,
            joinedAt: Date(timeIntervalSince1970: TimeInterval(snapshot.joinedAt)),
            hasOtherFile: Self.hasOtherFile(snapshot, than: files) ? true : nil,
            startTime: snapshot.startTime,
            commandsFolder: snapshot.commandsFolder,
            owner: snapshot.owner
        )
    }
}

extension ParticipantStatus {
    /// Whether a participant that lives shows other files than those that are in place (rule P15).
    private static func hasOtherFile(_ record: ParticipantRecord, than files: FileStamps?) -> Bool {
        guard record.liveness != .dead, let shown = record.files, let files else { return false }
        return shown.differs(from: files)
    }
}

extension ParticipantStatus.Role {
    fileprivate init(_ role: ParticipantTraits.Role) {
        switch role {
        case .unknown: self = .unknown
        case .readWrite: self = .readWrite
        case .readOnly: self = .readOnly
        }
    }
}

extension ParticipantStatus.State {
    fileprivate init(_ state: ParticipantTraits.State) {
        switch state {
        case .joining: self = .joining
        case .present: self = .present
        case .settingUp: self = .settingUp
        case .suspended: self = .suspended
        }
    }
}
