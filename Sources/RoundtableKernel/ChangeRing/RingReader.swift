/// A reader's position in the change ring, and its interpretation of the records there (rules R3, R5). It is pure: the
/// caller passes the ring and the commit counter in.
package struct RingReader: Equatable, Sendable {
    package enum News: Equatable, Sendable {
        case change(ChangeRecord)
        case anything(Reason)
    }

    /// The reason why a reader reports that anything may have changed.
    package enum Reason: String, Equatable, Sendable {
        /// Some commits have no record. A program that does not know the ring made them, or a participant without a slot.
        case unrecorded
        /// The record's owner died between committing and publishing, or was late.
        case unpublished
        /// The ring overwrote records before the reader read them, or a record is damaged.
        case overrun
        /// The commit counter did not rise, because SQLite has rebuilt the wal-index.
        case reset
        /// The reader has just begun, or has begun to read another ring.
        case began
    }

    /// The sequence of the last record that is accounted for.
    package private(set) var sequence: UInt64
    /// The value of the commit counter that is accounted for.
    package private(set) var counter: UInt32

    /// How long a record may stay reserved after its commit before the reader checks its owner (rule R5), in ns.
    package static let grace: Nanoseconds = 20_000_000
    /// How long a record may stay reserved after its commit while its owner is running, perhaps waiting for a processor, in ns.
    package static let longGrace: Nanoseconds = 1_000_000_000

    /// - Parameters:
    ///   - sequence: the last sequence in the ring. It must be read after `counter`, so that no later commit is missed.
    ///   - counter: the commit counter.
    package init(sequence: UInt64, counter: UInt32) {
        self.sequence = sequence
        self.counter = counter
    }

    /// Reports what has been committed since the last call, and moves the position.
    ///
    /// - Parameters:
    ///   - counter: reads the commit counter.
    ///   - last: reads the sequence of the last record.
    ///   - record: the record of a sequence; nil when it is overwritten or damaged.
    ///   - isRunning: whether the owner of a record may still publish it, because it is neither dead nor stopped.
    /// - returns: when to read again even without a wake-up, because a record may be published late; nil if that is not needed.
    package mutating func read(
        now: Nanoseconds,
        counter readCounter: () -> UInt32,
        last readLast: () -> UInt64,
        record: (UInt64) -> ChangeRecord?,
        isRunning: (OwnerWord) -> Bool,
        report: (News) -> Void
    ) -> Nanoseconds? {
        // Rule R3 requires this order.
        let start = counter
        let reached = readCounter()
        let last = readLast()
        // Above the limit, records were overwritten before the reader read them. A last sequence below the reader's position shows that
        // the ring is damaged, or is a different ring. Both are handled as an overrun.
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
                // The counter is read again, because it may have been set back since the first read.
                let isReached =
                    Self.distance(from: record.counter, to: reached) >= 0
                    && Self.distance(from: record.counter, to: readCounter()) >= 0
                guard isReached else {
                    accountForCounter(reached, since: start, readCounter, report)
                    return nil
                }
                if let lookAgain = timeToPublish(record, now: now, isRunning) {
                    // Earlier commits are reported now; they need not wait for this record.
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

    /// Accounts for commits that the counter shows and that have no record.
    ///
    /// - Parameters:
    ///   - reached: the counter, read before the records.
    ///   - start: the position's counter at that time.
    private mutating func accountForCounter(
        _ reached: UInt32,
        since start: UInt32,
        _ readCounter: () -> UInt32,
        _ report: (News) -> Void
    ) {
        if Self.distance(from: start, to: reached) >= 0 {
            // Records of commits made after the counter was read may be accounted for already.
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

    /// When to look again at a record that its owner may still publish; nil: the wait is over.
    private func timeToPublish(
        _ record: ChangeRecord,
        now: Nanoseconds,
        _ isRunning: (OwnerWord) -> Bool
    ) -> Nanoseconds? {
        // The record may have been reserved after `now`. A time further in the future is garbage (rule G2).
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

    /// The number of commits between two values of the counter; negative when the counter went back.
    private static func distance(from old: UInt32, to new: UInt32) -> Int32 {
        Int32(bitPattern: new &- old)
    }
}
