import Synchronization

/// The oldest read of a participant, as its slot shows it to other participants (rules O of `docs/PROTOCOL.md`).
package struct OldestRead: Equatable, Sendable {
    /// When the read began, in ns of the monotonic clock; never 0.
    package var since: Nanoseconds
    /// The position in the WAL where the read began, or a little before it.
    package var mark: WalMark

    package init(since: Nanoseconds, mark: WalMark) {
        self.since = max(1, since)
        self.mark = mark
    }
}

/// A position in the WAL: a number of frames in one run of the WAL. A run ends when SQLite restarts the WAL.
package struct WalMark: Equatable, Sendable {
    package var frames: UInt32
    /// The first salt of the WAL's header (<https://www.sqlite.org/walformat.html#wal_file_format>). Each new run changes it.
    package var salt: UInt32

    package init(frames: UInt32, salt: UInt32) {
        self.frames = frames
        self.salt = salt
    }

    init(word: UInt64) {
        frames = UInt32(truncatingIfNeeded: word)
        salt = UInt32(word >> 32)
    }

    var word: UInt64 { UInt64(frames) | UInt64(salt) << 32 }

    /// The number of committed frames that a checkpoint cannot copy because of a read at this mark.
    ///
    /// A read that has outlived its run of the WAL began when all of that run was in the database file. The read uses that
    /// file, so until it ends, a checkpoint copies nothing of the new run.
    ///
    /// - parameter now: the end of the WAL.
    package func framesHeld(now: WalMark) -> Int {
        now.salt == salt ? max(0, Int(now.frames) - Int(frames)) : Int(now.frames)
    }
}

extension Slot {
    func hideRead() { self[.oldestReadSince] = 0 }

    /// Shows `read`. The slot must show no read at this time.
    func show(_ read: OldestRead) {
        self[.oldestReadFrames] = read.mark.word
        self[.oldestReadSince] = read.since
    }

    /// The oldest read; nil if there is none or if it is being changed.
    var oldestRead: OldestRead? {
        let since = self[.oldestReadSince]
        guard since != 0 else { return nil }
        let mark = WalMark(word: self[.oldestReadFrames])
        return self[.oldestReadSince] == since ? OldestRead(since: since, mark: mark) : nil
    }
}

extension ControlBlock {
    /// Whether a read of some participant has lasted longer than `duration`. A participant whose death is not proven counts.
    package func isRead(longerThan duration: Nanoseconds) -> Bool {
        let now = MonotonicClock.now
        return slots.contains { slot in
            guard slot.owner.pointee.load(ordering: .relaxed) != 0, let read = slot.oldestRead,
                now.subtractingSaturating(read.since) > duration
            else { return false }
            let owner = slot.owner.pointee.load(ordering: .acquiring)
            return liveness(of: slot, owner: owner, seenFrom: .current) != .dead
        }
    }
}
