/// A reader's place in the change ring, and what it makes of what it finds there (rules R3, R5). Pure: the ring and the
/// commit counter are handed in.
package struct RingReader: Equatable, Sendable {
    package enum News: Equatable, Sendable {
        case change(ChangeRecord)
        case anything(Reason)
    }

    /// Why anything may have changed.
    package enum Reason: String, Equatable, Sendable {
        /// Commits that have no record: of a program that does not know the ring, or of a participant without a seat.
        case unrecorded
        /// The record's owner died between committing and saying so, or was late.
        case unpublished
        /// The reader was away while the ring came around, or a record is damaged.
        case overrun
        /// The counter did not count up: SQLite has rebuilt the wal-index.
        case reset
        /// The reader has just begun, or has begun to read another ring.
        case began
    }

    /// The last record that is accounted for.
    package private(set) var sequence: UInt64
    /// The value of the commit counter that is accounted for.
    package private(set) var counter: UInt32

    /// How long a record may stay reserved after its commit, before its owner is looked at (rule R5).
    package static let grace: Nanoseconds = 20_000_000
    /// The same, while its owner is running: it waits for a processor.
    package static let longGrace: Nanoseconds = 1_000_000_000

    /// - Parameters:
    ///   - sequence: the last in the ring. Read it after `counter`: then nothing that is counted later is missed.
    ///   - counter: the commit counter.
    package init(sequence: UInt64, counter: UInt32) {
        self.sequence = sequence
        self.counter = counter
    }

    /// Accounts for what has happened since the last time.
    ///
    /// - Parameters:
    ///   - counter: reads the commit counter.
    ///   - last: reads the sequence of the last record.
    ///   - record: the record of a sequence; nil when it is overwritten or damaged.
    ///   - isRunning: whether the owner of a record may still publish it: not dead, not stopped.
    /// - returns: when to look again although nobody wakes: a record may be published late.
    package mutating func read(
        now: Nanoseconds,
        counter readCounter: () -> UInt32,
        last readLast: () -> UInt64,
        record: (UInt64) -> ChangeRecord?,
        isRunning: (OwnerWord) -> Bool,
        report: (News) -> Void
    ) -> Nanoseconds? {
        // In this order: rule R3.
        let start = counter
        let reached = readCounter()
        let last = readLast()
        // Backwards: the ring is damaged, or another.
        if last < sequence || last - sequence > UInt64(Layout.recordCount) {
            skip(to: last, reached, .overrun, report)
            return nil
        }
        while sequence < last {
            guard let record = record(sequence + 1) else {
                skip(to: last, reached, .overrun, report)
                return nil
            }
            if record.state == .reserved {
                // Anew: it may have been set back since the look began.
                let isReached =
                    Self.distance(from: record.counter, to: reached) >= 0
                    && Self.distance(from: record.counter, to: readCounter()) >= 0
                guard isReached else {
                    accountForCounter(reached, since: start, readCounter, report)
                    return nil
                }
                if let lookAgain = timeToPublish(record, now: now, isRunning) {
                    // What was committed before it need not wait.
                    if Self.distance(from: counter, to: record.counter) > 1 {
                        report(.anything(.unrecorded))
                        counter = record.counter &- 1
                    }
                    return lookAgain
                }
                sequence = record.sequence
                report(.anything(.unpublished))
                counter = record.counter
                continue
            }
            meet(record, report)
        }
        accountForCounter(reached, since: start, readCounter, report)
        return nil
    }

    private mutating func meet(_ record: ChangeRecord, _ report: (News) -> Void) {
        sequence = record.sequence
        switch record.state {
        case .void:
            return
        case .aside:
            report(.change(record))
        case .committed:
            let distance = Self.distance(from: counter, to: record.counter)
            if distance != 1 { report(.anything(distance > 1 ? .unrecorded : .reset)) }
            counter = record.counter
            report(.change(record))
        case .unsure:
            counter = record.counter
            report(.anything(.unpublished))
        case .reserved:
            preconditionFailure("a reserved record is for `read` to judge")
        }
    }

    /// Accounts for what the counter shows and no record tells of.
    ///
    /// - Parameters:
    ///   - reached: the counter, read before the records were.
    ///   - start: the position's counter at that time.
    private mutating func accountForCounter(
        _ reached: UInt32,
        since start: UInt32,
        _ readCounter: () -> UInt32,
        _ report: (News) -> Void
    ) {
        if Self.distance(from: start, to: reached) >= 0 {
            // Commits that were made since the counter was read may be accounted for already.
            if Self.distance(from: counter, to: reached) > 0 {
                report(.anything(.unrecorded))
                counter = reached
            }
            return
        }
        let present = readCounter()
        if present != counter {
            report(.anything(.reset))
            counter = present
        }
    }

    /// Until when to wait for a word about a commit that was made; nil: no longer.
    private func timeToPublish(
        _ record: ChangeRecord,
        now: Nanoseconds,
        _ isRunning: (OwnerWord) -> Bool
    ) -> Nanoseconds? {
        // Reserved since the look began, perhaps. A time further in the future is garbage (rule G2).
        guard record.time <= now.addingSaturating(Self.longGrace) else { return nil }
        let age = now.subtractingSaturating(record.time)
        if age < Self.grace { return record.time.addingSaturating(Self.grace) }
        return age < Self.longGrace && isRunning(record.owner) ? now + Self.grace : nil
    }

    private mutating func skip(to last: UInt64, _ reached: UInt32, _ reason: Reason, _ report: (News) -> Void) {
        sequence = last
        counter = reached
        report(.anything(reason))
    }

    /// How many commits lead from one value of the counter to another; negative when it went back.
    private static func distance(from old: UInt32, to new: UInt32) -> Int32 {
        Int32(bitPattern: new &- old)
    }
}
