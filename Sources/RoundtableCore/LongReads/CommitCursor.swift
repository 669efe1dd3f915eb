import RoundtableKernel

/// A position between two commits, which moves to a later commit and reports the changes in between.
///
/// Unlike a feed, which follows the commit counter, a cursor stops at a given commit: the last one that a read transaction sees. It is
/// confined to one queue at a time.
struct CommitCursor {
    private let openBlock: @Sendable () -> ControlBlock?
    private var block: ControlBlock?
    private var reader: RingReader
    private var translator: ChangeTranslator
    /// Whether the commit counter at the position could not be read.
    private var isLost: Bool

    /// The longest time that `move` waits for records to be published, in nanoseconds. Their owner may be waiting for a processor.
    private static let patience: Nanoseconds = 250_000_000

    /// - Parameters:
    ///   - counter: the commit counter at the position; nil when it cannot be read.
    ///   - openBlock: opens the control block that is beside the database now. Without one, all commits are unrecorded.
    init(at counter: UInt32?, openBlock: @escaping @Sendable () -> ControlBlock?) {
        self.openBlock = openBlock
        isLost = counter == nil
        let counter = counter ?? 0
        block = openBlock()
        reader = RingReader(sequence: block.map { Self.end(of: counter, in: $0) } ?? 0, counter: counter)
        translator = ChangeTranslator(block, from: counter)
    }

    /// The commit counter at the position.
    var counter: UInt32 { reader.counter }

    /// Sets the commit counter of the position, after the wal-index was rebuilt and nothing was committed.
    mutating func recount(to counter: UInt32) {
        reader = RingReader(sequence: reader.sequence, counter: counter)
        translator.recount(from: counter)
    }

    /// Moves to a later commit.
    ///
    /// - Parameters:
    ///   - target: the commit counter at that commit.
    ///   - presentCounter: reads the commit counter as it is now.
    ///   - owns: whether the owner of a record in the ring of a control block is this participant.
    /// - returns: at least the changes that were committed in between; empty only if there were none.
    mutating func move(
        to target: UInt32,
        presentCounter: () -> UInt32?,
        owns: (OwnerWord, ControlBlock) -> Bool
    ) -> [DatabaseChange] {
        if isLost { return restart(at: target) }
        guard reader.counter != target || hasCommitsAside else { return [] }
        guard let block, block.isIntact, block.isInPlace else {
            // The old ring is gone, and it is not known when the new one began (rule N4).
            self.block = openBlock()
            translator.read(self.block)
            return restart(at: target)
        }
        var news: [RingReader.News] = []
        let deadline = MonotonicClock.now.addingSaturating(Self.patience)
        while true {
            let seen = block.newsWord
            let now = MonotonicClock.now
            let sequence = reader.sequence
            let lookAgain = reader.read(
                now: now,
                counter: { target },
                last: { Self.end(of: target, in: block, after: sequence, presentCounter: presentCounter) },
                record: block.record,
                isRunning: block.isRunning,
                report: { news.append($0) }
            )
            guard let lookAgain else { break }
            guard now < deadline else { return restart(at: target) }
            _ = block.waitForNews(after: seen, timeout: lookAgain.subtractingSaturating(now))
        }
        guard reader.counter == target else { return restart(at: target) }
        return translator.changes(news, upTo: target) { owns($0, block) }
    }

    /// Moves to a later commit, and reports that anything may have changed.
    ///
    /// - parameter target: nil when the counter cannot be read.
    mutating func restart(at target: UInt32?) -> [DatabaseChange] {
        isLost = target == nil
        let target = target ?? reader.counter
        reader = RingReader(sequence: block.map { Self.end(of: target, in: $0) } ?? 0, counter: target)
        return translator.changes([.anything(.began)], upTo: target) { _ in false }
    }

    /// Whether the ring has records beyond the position. Those of commits to attached databases do not increment the counter.
    private var hasCommitsAside: Bool { block.map { $0.lastSequence != reader.sequence } ?? false }

    // MARK: The end of a commit in the ring

    /// The last record that does not belong to a commit after `counter`. The search goes back from the end of the ring, for a cursor that
    /// has no position in it.
    private static func end(of counter: UInt32, in block: ControlBlock) -> UInt64 {
        var sequence = block.lastSequence
        for _ in 0..<Layout.recordCount {
            guard let record = block.record(sequence), isAhead(record.counter, of: counter) else { break }
            sequence -= 1
        }
        return sequence
    }

    /// The last record that does not belong to a commit after `counter`. The search goes forward from the position of a cursor.
    ///
    /// A committed record whose counter has not been reached by the commit counter is from before the counter was set back. It does not
    /// end the search.
    private static func end(
        of counter: UInt32,
        in block: ControlBlock,
        after sequence: UInt64,
        presentCounter: () -> UInt32?
    ) -> UInt64 {
        let last = block.lastSequence
        // The ring was replaced, or was overwritten. The reader detects this.
        guard last > sequence, last - sequence <= UInt64(Layout.recordCount) else { return last }
        for next in sequence + 1...last {
            guard let record = block.record(next) else { return last }
            guard isAhead(record.counter, of: counter) else { continue }
            switch record.state {
            case .reserved:
                return next - 1
            case .committed, .unsure:
                if let present = presentCounter(), !isAhead(record.counter, of: present) { return next - 1 }
            case .aside, .void:
                break
            }
        }
        return last
    }

    private static func isAhead(_ counter: UInt32, of other: UInt32) -> Bool { Int32(bitPattern: counter &- other) > 0 }
}
