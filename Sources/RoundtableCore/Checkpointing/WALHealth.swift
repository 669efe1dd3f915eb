import Foundation
import RoundtableKernel

/// The length and growth of the write-ahead log, and the readers that keep it from being copied into the database file
/// (<https://www.sqlite.org/wal.html#avoiding_excessively_large_wal_files>).
///
/// It describes one moment: a read that it names may have ended since. It encodes as JSON with the keys listed here; there, times
/// are in seconds. Sizes are in bytes.
public struct WALHealth: Codable, Sendable, Equatable {
    /// The number of frames of committed transactions. A frame is a page that a transaction wrote.
    public var committedFrames: Int
    /// The number of committed frames that a checkpoint has copied into the database file.
    public var backfilledFrames: Int
    /// The size of the `-wal` file. The file keeps its length when SQLite restarts the WAL.
    public var size: Int
    /// Frames per second since the last attempt at a checkpoint; 0 when the WAL was not written for a second. nil when the rate is not
    /// known: there was no attempt, it was less than 250 ms ago, or the WAL has been restarted since.
    public var growth: Double?
    /// The participant that makes checkpoints for all participants at this time; nil while there is nothing to do.
    public var checkpointer: SharingProcess?
    /// The holder of SQLite's lock for checkpoints (Linux). No other process can checkpoint meanwhile: check whether the holder is
    /// stopped.
    public var checkpointLock: SharingProcess?
    /// The reads that keep frames from being copied, sorted by the number of frames they hold back, the largest first.
    public var pins: [Pin]
    /// Why SQLite failed on the last attempt at a checkpoint; nil when it did not, or when no frames are left to copy. The WAL grows
    /// until a checkpoint succeeds.
    public var failure: Failure?
    /// The counters of all participants; nil without a control block.
    package var counters: Counters?

    package init(
        committedFrames: Int,
        backfilledFrames: Int,
        size: Int,
        growth: Double? = nil,
        checkpointer: SharingProcess? = nil,
        checkpointLock: SharingProcess? = nil,
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
    /// A read transaction, or the read that every write begins with. Frames committed after it began cannot be copied until it ends.
    public struct Pin: Codable, Sendable, Equatable {
        public var holder: SharingProcess
        /// The number of committed frames that it holds back.
        public var heldFrames: Int
        /// How long it has lasted; nil when that is not known, as for processes that are not participants.
        public var age: Duration? { ageSeconds.map(Duration.init(inSeconds:)) }
        package var ageSeconds: Double?
        /// When it began, in ns of the machine's monotonic clock. Together with the holder, it identifies a pin.
        public var since: UInt64?
        /// Where in the code it began, as `Module/File.swift:12`. nil when that is not known: for processes that are not
        /// participants, and for reads through `some DatabaseReader`.
        public var callSite: String?

        package init(
            holder: SharingProcess,
            heldFrames: Int,
            age: Duration? = nil,
            since: UInt64? = nil,
            callSite: String? = nil
        ) {
            self.holder = holder
            self.heldFrames = heldFrames
            ageSeconds = age?.inSeconds
            self.since = since
            self.callSite = callSite
        }

        enum CodingKeys: String, CodingKey {
            case holder
            case heldFrames = "held_frames"
            case ageSeconds = "age_s"
            case since = "since_ns"
            case callSite = "call_site"
        }
    }

    /// A checkpoint that failed, for example because the disk was full or the file was not writable.
    public struct Failure: Codable, Sendable, Equatable {
        /// SQLite's extended result code (<https://www.sqlite.org/rescode.html>).
        public var code: Int32
        /// SQLite's message for the code.
        public var reason: String
        /// How long ago the attempt was made.
        public var age: Duration { Duration(inSeconds: ageSeconds) }
        package var ageSeconds: Double
        /// The participant that made the attempt; nil when it has left.
        public var by: SharingProcess?

        package init(code: Int32, reason: String, age: Duration, by: SharingProcess? = nil) {
            self.code = code
            self.reason = reason
            ageSeconds = age.inSeconds
            self.by = by
        }

        enum CodingKeys: String, CodingKey {
            case code, reason, by
            case ageSeconds = "age_s"
        }
    }

    /// Counters of all participants, since the control block was created.
    package struct Counters: Codable, Sendable, Equatable {
        /// Checkpoints that copied frames.
        package var checkpoints: Int
        /// Checkpoints that let SQLite restart the WAL.
        package var walRestarts: Int
        /// Attempts that were held up by a reader or another process, or that failed.
        package var heldUp: Int
        /// Checkpoints that a writer had to make within its turn.
        package var byWriters: Int

        enum CodingKeys: String, CodingKey {
            case checkpoints
            case walRestarts = "wal_restarts"
            case heldUp = "held_up"
            case byWriters = "by_writers"
        }
    }
}

// MARK: - Descriptions

extension WALHealth: CustomStringConvertible {
    public var description: String {
        var text = """
            the WAL has \(committedFrames.of("frame")) (pages, in a file of \(size.byteSize)), of which \
            \(backfilledFrames.grouped) are copied
            """
        if let growth, growth >= 0.5 { text += ", and grows by \(Int(nearest: growth).of("frame"))/s" }
        if let checkpointLock, checkpointLock.liveness != .alive {
            text += "; \(checkpointLock) holds the lock for checkpoints, so no other process can checkpoint"
        } else if let checkpointLock, !checkpointLock.isParticipant {
            text += "; \(checkpointLock) checkpoints now"
        }
        if let failure { text += "; \(failure)" }
        if let pin = pins.first { text += "; \(pin)" }
        if pins.count > 1 { text += ", and \((pins.count - 1).grouped) more hold some back" }
        return text
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
