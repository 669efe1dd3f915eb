extension SharedDatabase {
    /// Who copies what the WAL has gathered into the database file, and when
    /// (<https://www.sqlite.org/wal.html#checkpointing>). All participants of a database should say the same.
    public enum CheckpointPolicy: Sendable, Hashable {
        /// The participants do, one at a time, in the background: none of their commits pays for it.
        ///
        /// - parameter threshold: how many frames (pages that transactions wrote) the WAL gathers before they are copied. It begins anew from
        ///   twice as many on, and is at most four times as long, unless somebody reads one moment of the database for long. At
        ///   least 16.
        case automatic(threshold: Int)
        /// Only ``SharedDatabase/checkpoint(_:waitingForReaders:file:line:)`` does, and the last one that closes the database.
        case manual
        /// Somebody else does, such as Litestream. The WAL is left alone, at closing too. Do not call
        /// ``SharedDatabase/checkpoint(_:waitingForReaders:file:line:)`` with it.
        case external

        /// After 1,000 frames, as SQLite does by itself.
        public static let automatic = CheckpointPolicy.automatic(threshold: 1000)
    }
}

/// How many frames in the WAL call for what.
struct CheckpointLimits: Sendable, Equatable {
    /// Rule K2.
    let threshold: Int
    /// Those of others, as far as one can know.
    static let `default` = CheckpointLimits(threshold: 1000)

    private init(threshold: Int) { self.threshold = threshold }

    /// nil: nothing is done without being asked for.
    init?(_ policy: SharedDatabase.CheckpointPolicy) {
        guard case .automatic(let threshold) = policy else { return nil }
        // Nothing that a program can say overflows.
        self.threshold = min(max(16, threshold), Int(UInt32.max))
    }

    /// Rule K5.
    var restart: Int { 2 * threshold }
    /// Rule K6.
    var need: Int { 3 * threshold }
    /// The most that there should be; a longer file is truncated.
    var longest: Int { 4 * threshold }
    /// A file that is longer than the rest of it by more than so many is cut in pieces of so many: the system takes its time to free them.
    var piece: Int { 32 * threshold }
    /// So few are copied within the turn.
    var few: Int { threshold / 8 }

    func wantsCheckpoint(_ frames: WalIndex.Frames) -> Bool {
        frames.uncopied >= threshold || wantsRestart(frames)
    }

    func wantsRestart(_ frames: WalIndex.Frames) -> Bool {
        frames.committed >= restart && frames.uncopied > 0
    }
}

extension WalIndex.Frames {
    /// Those that are not in the database file yet.
    var uncopied: Int { committed - backfilled }
}
