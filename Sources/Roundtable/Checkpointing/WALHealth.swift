import Foundation
import RoundtableKernel

/// How long the write-ahead log is, how fast it grows, and who keeps it from being copied into the database file
/// (<https://www.sqlite.org/wal.html#avoiding_excessively_large_wal_files>).
///
/// What a moment showed: those named may have gone on since. It encodes as JSON with the keys listed here; times are
/// seconds, sizes bytes.
public struct WALHealth: Codable, Sendable, Equatable {
    /// Frames of committed transactions. A frame is a page that a transaction wrote.
    public var committedFrames: Int
    /// Those of them that a checkpoint has copied into the database file.
    public var backfilledFrames: Int
    /// Of the `-wal` file, which keeps its length when SQLite starts the WAL anew.
    public var size: Int
    /// Frames per second, since the last attempt at a checkpoint. nil when that cannot be told: there was none, it was less
    /// than 250 ms ago, or the WAL was begun anew meanwhile.
    public var growth: Double?
    /// The participant that makes checkpoints for all at this time; nil while there is nothing to do.
    public var checkpointer: Party?
    /// Who holds SQLite's lock for checkpoints (Linux). Nobody else can make one meanwhile: see whether it is stopped.
    public var checkpointLock: Party?
    /// Who keeps frames from being copied, who holds back most first.
    public var pins: [Pin]
    /// Why SQLite failed on the last attempt at a checkpoint; nil when it did not. Until one gets through, the WAL grows.
    public var failure: Failure?
    /// nil without a control block.
    public var counters: Counters?

    public init(
        committedFrames: Int,
        backfilledFrames: Int,
        size: Int,
        growth: Double? = nil,
        checkpointer: Party? = nil,
        checkpointLock: Party? = nil,
        pins: [Pin] = [],
        failure: Failure? = nil,
        counters: Counters? = nil
    ) {
        self.committedFrames = committedFrames
        self.backfilledFrames = backfilledFrames
        self.size = size
        self.growth = growth
        self.checkpointer = checkpointer
        self.checkpointLock = checkpointLock
        self.pins = pins
        self.failure = failure
        self.counters = counters
    }

    enum CodingKeys: String, CodingKey {
        case size, checkpointer, pins, failure, counters
        case committedFrames = "committed_frames"
        case backfilledFrames = "backfilled_frames"
        case growth = "growth_frames_per_s"
        case checkpointLock = "checkpoint_lock"
    }
}

extension WALHealth {
    /// A participant, or a process that is none.
    public struct Party: Codable, Sendable, Equatable {
        /// Of a participant: in its own pid namespace.
        public var pid: Int32
        /// Whether that is another one than that of the process that looked.
        public var isInOtherPIDNamespace: Bool
        /// The author of a participant, the program of a stranger; nil when the system does not tell.
        public var name: String?
        /// Strangers are such as the `sqlite3` shell, or a participant of another control block.
        public var isParticipant: Bool
        public var liveness: DatabaseStatus.Participant.Liveness

        public init(
            pid: Int32,
            isInOtherPIDNamespace: Bool = false,
            name: String?,
            isParticipant: Bool,
            liveness: DatabaseStatus.Participant.Liveness
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

    /// A read, or the read that every write begins with, which lets no frame be copied that was committed after it began.
    public struct Pin: Codable, Sendable, Equatable {
        public var holder: Party
        /// How many committed frames it holds back.
        public var heldFrames: Int
        /// How long it has lasted; nil when that is not known, as of strangers.
        public var age: TimeInterval?
        /// When it began, in ns of the machine's monotonic clock: with the holder, it tells one pin from another.
        public var since: UInt64?
        /// Where in the code it began, as `Module/File.swift:12`; nil when that is not known: of strangers, and of reads through
        /// `some DatabaseReader`.
        public var callSite: String?

        public init(
            holder: Party,
            heldFrames: Int,
            age: TimeInterval? = nil,
            since: UInt64? = nil,
            callSite: String? = nil
        ) {
            self.holder = holder
            self.heldFrames = heldFrames
            self.age = age
            self.since = since
            self.callSite = callSite
        }

        enum CodingKeys: String, CodingKey {
            case holder
            case heldFrames = "held_frames"
            case age = "age_s"
            case since = "since_ns"
            case callSite = "call_site"
        }
    }

    /// A checkpoint that failed: the disk was full, say, or the file was not to be written.
    public struct Failure: Codable, Sendable, Equatable {
        /// SQLite's extended result code (<https://www.sqlite.org/rescode.html>).
        public var code: Int32
        /// SQLite's words for it.
        public var reason: String
        /// How long ago that was.
        public var age: TimeInterval
        /// Whose attempt it was; nil when it has left.
        public var by: Party?

        public init(code: Int32, reason: String, age: TimeInterval, by: Party? = nil) {
            self.code = code
            self.reason = reason
            self.age = age
            self.by = by
        }

        enum CodingKeys: String, CodingKey {
            case code, reason, by
            case age = "age_s"
        }
    }

    /// Of all participants, since the control block was made.
    public struct Counters: Codable, Sendable, Equatable {
        /// Checkpoints that copied frames.
        public var checkpoints: Int
        /// Those that made SQLite start the WAL anew.
        public var walRestarts: Int
        /// Attempts that somebody was in the way of.
        public var heldUp: Int
        /// Checkpoints that a writer had to make within its turn.
        public var byWriters: Int

        public init(checkpoints: Int, walRestarts: Int, heldUp: Int, byWriters: Int) {
            self.checkpoints = checkpoints
            self.walRestarts = walRestarts
            self.heldUp = heldUp
            self.byWriters = byWriters
        }

        enum CodingKeys: String, CodingKey {
            case checkpoints
            case walRestarts = "wal_restarts"
            case heldUp = "held_up"
            case byWriters = "by_writers"
        }
    }
}

// MARK: - In words

extension WALHealth: CustomStringConvertible {
    public var description: String {
        var text = """
            the WAL has \(committedFrames.of("frame")) (pages, in a file of \(size.byteSize)), of which \
            \(backfilledFrames.grouped) are copied
            """
        if let growth, growth >= 0.5 { text += ", and grows by \(Int(growth.rounded()).of("frame"))/s" }
        if let checkpointLock, checkpointLock.liveness != .alive {
            text += "; \(checkpointLock) holds the lock for checkpoints: nobody can make one"
        } else if let checkpointLock, !checkpointLock.isParticipant {
            text += "; \(checkpointLock) checkpoints now"
        }
        if let failure { text += "; \(failure)" }
        if let pin = pins.first { text += "; \(pin)" }
        if pins.count > 1 { text += ", and \((pins.count - 1).grouped) more hold some back" }
        return text
    }
}

extension WALHealth.Party {
    package func isOf(_ participant: DatabaseStatus.Participant) -> Bool {
        (pid, isInOtherPIDNamespace) == (participant.pid, participant.isInOtherPIDNamespace)
    }
}

extension WALHealth.Party: CustomStringConvertible {
    /// As `'widget' (pid 12, stopped)`.
    public var description: String {
        let quoted = name.map { "'\($0)' " } ?? ""
        let condition = liveness == .alive ? "" : ", \(liveness)"
        let pid = ProcessTable.description(ofPID: pid, isElsewhere: isInOtherPIDNamespace)
        return "\(quoted)(\(pid)\(condition))"
    }
}

extension WALHealth.Failure: CustomStringConvertible {
    public var description: String {
        "the last checkpoint\(by.map { ", of \($0)," } ?? "") failed \(age.seconds) ago: \(reason) (SQLite error \(code))"
    }
}

extension WALHealth.Pin: CustomStringConvertible {
    public var description: String {
        var text = "\(holder) holds \(heldFrames.of("frame")) back"
        if let age { text += ", for \(age.seconds)" }
        if let callSite { text += ", since \(callSite)" }
        return holder.isParticipant ? text : "\(text); it is no participant"
    }
}
