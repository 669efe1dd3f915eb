/// A reader's position in the change ring, and its interpretation of the records there (rules R3, R5). It is pure: the
/// caller passes the ring and the commit counter in. `AnythingChanged.swift` decides when it reports that anything may have changed.
package struct RingReader: Equatable, Sendable {
    package enum News: Equatable, Sendable {
        case change(ChangeRecord)
        /// Anything may have changed.
        case anything(Reason)
    }

    /// The sequence of the last record that is accounted for.
    package private(set) var sequence: UInt64
    /// The value of the commit counter that is accounted for.
    package private(set) var counter: UInt32

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
        // Rule R3 requires this order: each commit that the counter counts then has its record, or never will.
        let start = counter
        let reached = readCounter()
        let first = readLast()
        var last = first
        if Self.isOverrun(after: sequence, upTo: last) {
            skip(to: last, reached, report)
            return nil
        }
        while sequence < last {
            guard let record = record(sequence + 1) else {
                skip(to: last, reached, report)
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
                if let lookAgain = Self.timeToPublish(record, now: now, isRunning) {
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
            // The records that replace a void one were added before it became void (rule U5), perhaps after `last` was read.
            if record.state == .void, sequence <= first { last = readLast() }
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
            if let reason = Self.gap(from: counter, to: record.counter) { report(.anything(reason)) }
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
    private mutating func accountForCounter(
        _ reached: UInt32,
        since start: UInt32,
        _ readCounter: () -> UInt32,
        _ report: (News) -> Void
    ) {
        guard let rest = Self.rest(from: counter, to: reached, since: start, readCounter) else { return }
        report(.anything(rest.reason))
        counter = rest.counter
    }

    private mutating func skip(to last: UInt64, _ reached: UInt32, _ report: (News) -> Void) {
        sequence = last
        counter = reached
        report(.anything(.overrun))
    }
}
