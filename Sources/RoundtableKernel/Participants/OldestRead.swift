/// The oldest read of a participant, as its slot shows it to others (rules O of `docs/PROTOCOL.md`).
package struct OldestRead: Equatable, Sendable {
    /// When it began, ns of the monotonic clock; never 0.
    package var since: Nanoseconds
    /// Where in the WAL it began, or a little before.
    package var mark: WalMark

    package init(since: Nanoseconds, mark: WalMark) {
        self.since = max(1, since)
        self.mark = mark
    }
}

/// A place in the WAL: so many frames of one run of it, which ends when SQLite starts the WAL anew.
package struct WalMark: Equatable, Sendable {
    package var frames: UInt32
    /// The first salt of the WAL's header (<https://www.sqlite.org/walformat.html#wal_file_format>), which each new run
    /// changes.
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

    /// How many frames that are committed now a checkpoint cannot copy because of a read at this mark.
    ///
    /// A read that has outlived its run of the WAL began when all of it was in the database file, and reads that: so long,
    /// nothing may be copied there.
    package func framesHeld(now: WalMark) -> Int {
        now.salt == salt ? Int(now.frames.subtractingSaturating(frames)) : Int(now.frames)
    }
}

extension UInt32 {
    fileprivate func subtractingSaturating(_ other: UInt32) -> UInt32 { self > other ? self - other : 0 }
}

extension Participant {
    /// Shows this participant's oldest read to others; nil: that it has none (rule O2).
    ///
    /// Not from two threads at once.
    package func show(_ read: OldestRead?, at site: CallSite? = nil) {
        guard isSeated else { return }
        slot.hideRead()
        if let read {
            slot.setReadCallSite(site ?? .unknown)
            slot.show(read)
        }
    }
}

extension Slot {
    func hideRead() { self[.oldestReadSince] = 0 }

    /// While none is shown.
    func show(_ read: OldestRead) {
        self[.oldestReadFrames] = read.mark.word
        self[.oldestReadSince] = read.since
    }

    /// nil: none, or it is changing at this moment.
    var oldestRead: OldestRead? {
        let since = self[.oldestReadSince]
        guard since != 0 else { return nil }
        let mark = WalMark(word: self[.oldestReadFrames])
        return self[.oldestReadSince] == since ? OldestRead(since: since, mark: mark) : nil
    }
}

extension ControlBlock {
    /// Whether the read of a participant has lasted longer than this. The dead, who hold nothing, may be among them for a while.
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
