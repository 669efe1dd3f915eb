/// Decides when a reader of the change ring reports that anything may have changed, because the records do not say what (rules R3, R5).
/// `RingReader.read` asks these questions in the order of the functions, and reports the reason. They are pure.
extension RingReader {
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

    /// How long a record may stay reserved after its commit before the reader checks its owner (rule R5), in ns.
    package static let grace: Nanoseconds = 20_000_000
    /// How long a record may stay reserved after its commit while its owner is running, perhaps waiting for a processor, in ns.
    package static let longGrace: Nanoseconds = 1_000_000_000

    /// Whether the ring does not have all records between a reader's position and the last record any more (`overrun`).
    ///
    /// Above the limit, records were overwritten before the reader read them. A last sequence below the reader's position shows that
    /// the ring is damaged, or is a different ring. Both are handled as an overrun.
    static func isOverrun(after sequence: UInt64, upTo last: UInt64) -> Bool {
        last < sequence || last - sequence > UInt64(Layout.recordCount)
    }

    /// When to look again at a reserved record that its owner may still publish; nil: the wait is over (`unpublished`).
    static func timeToPublish(_ record: ChangeRecord, now: Nanoseconds, _ isRunning: (OwnerWord) -> Bool)
        -> Nanoseconds?
    {
        // The record may have been reserved after `now`. A time further in the future is garbage (rule G2).
        guard record.time <= now.addingSaturating(longGrace) else { return nil }
        let age = now.subtractingSaturating(record.time)
        if age < grace { return record.time.addingSaturating(grace) }
        return age < longGrace && isRunning(record.owner) ? now + grace : nil
    }

    /// What lies between the commit that was accounted for last and the commit of the next record; nil when the one follows the other.
    static func gap(from counter: UInt32, to next: UInt32) -> Reason? {
        let distance = distance(from: counter, to: next)
        return distance == 1 ? nil : distance > 1 ? .unrecorded : .reset
    }

    /// What the commit counter shows after all records are accounted for.
    ///
    /// - Parameters:
    ///   - counter: the commit that was accounted for last.
    ///   - reached: the counter, read before the records.
    ///   - start: the position's counter at that time.
    ///   - readCounter: reads the counter again.
    /// - returns: the reason, and the value of the counter that is accounted for with it; nil when all commits have records.
    static func rest(
        from counter: UInt32,
        to reached: UInt32,
        since start: UInt32,
        _ readCounter: () -> UInt32
    ) -> (reason: Reason, counter: UInt32)? {
        if distance(from: start, to: reached) >= 0 {
            // Records of commits made after the counter was read may be accounted for already.
            return distance(from: counter, to: reached) > 0 ? (.unrecorded, reached) : nil
        }
        let present = readCounter()
        return present != counter ? (.reset, present) : nil
    }

    /// The number of commits between two values of the counter; negative when the counter went back.
    static func distance(from old: UInt32, to new: UInt32) -> Int32 {
        Int32(bitPattern: new &- old)
    }
}
