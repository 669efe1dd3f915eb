import RoundtableKernel

/// A place between two commits, and the way from there to another: which changes lie between.
///
/// Unlike a feed, which follows the commit counter as it runs, it stops at a given commit: a read transaction's. Confined
/// to one queue at a time.
struct CommitCursor {
    private let openBlock: @Sendable () -> ControlBlock?
    private var block: ControlBlock?
    private var reader: RingReader
    private var translator: ChangeTranslator
    /// The commit counter could not be read where the cursor is.
    private var isLost: Bool

    /// The longest that `move` waits for records that are about to be published: their owner may wait for a processor.
    private static let patience: Nanoseconds = 250_000_000

    /// - Parameters:
    ///   - openBlock: the control block that lies beside the database now. Without one, all commits are unrecorded.
    ///   - counter: the commit counter of the place; nil when it cannot be read.
    init(at counter: UInt32?, openBlock: @escaping @Sendable () -> ControlBlock?) {
        self.openBlock = openBlock
        isLost = counter == nil
        let counter = counter ?? 0
        block = openBlock()
        reader = RingReader(sequence: block.map { Self.end(of: counter, in: $0) } ?? 0, counter: counter)
        translator = ChangeTranslator(block, from: counter)
    }

    /// The commit counter of the place.
    var counter: UInt32 { reader.counter }

    /// The counter says something else now, and nothing was committed.
    mutating func recount(to counter: UInt32) {
        reader = RingReader(sequence: reader.sequence, counter: counter)
        translator.recount(from: counter)
    }

    /// Goes to a later commit.
    ///
    /// - Parameters:
    ///   - target: the commit counter there.
    ///   - presentCounter: reads the commit counter as it is now.
    ///   - owns: whether an owner of records, in the ring of a control block, is this participant.
    /// - returns: what was committed in between: at least that. Empty only if nothing was.
    mutating func move(
        to target: UInt32,
        presentCounter: () -> UInt32?,
        owns: (OwnerWord, ControlBlock) -> Bool
    ) -> [Change] {
        if isLost { return restart(at: target) }
        guard reader.counter != target || hasCommitsAside else { return [] }
        guard let block, block.isIntact, block.isInPlace else {
            // Of the ring that went away nothing is known, and of the one that came, not from when (rule N4).
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

    /// Goes to a later commit, and tells that anything may have changed.
    ///
    /// - parameter target: nil when the counter cannot be read.
    mutating func restart(at target: UInt32?) -> [Change] {
        isLost = target == nil
        let target = target ?? reader.counter
        reader = RingReader(sequence: block.map { Self.end(of: target, in: $0) } ?? 0, counter: target)
        return translator.changes([.anything(.began)], upTo: target) { _ in false }
    }

    /// Commits to attached databases do not move the counter.
    private var hasCommitsAside: Bool { block.map { $0.lastSequence != reader.sequence } ?? false }

    // MARK: The end of a commit in the ring

    /// The last record that is not of a commit after `counter`, going back from the ring's end: for a cursor that begins.
    private static func end(of counter: UInt32, in block: ControlBlock) -> UInt64 {
        var sequence = block.lastSequence
        for _ in 0..<Layout.recordCount {
            guard let record = block.record(sequence), isAhead(record.counter, of: counter) else { break }
            sequence -= 1
        }
        return sequence
    }

    /// The same, going forward from where a cursor is.
    ///
    /// A record that says of a commit that it was made, while the counter has not come that far, is from before the counter
    /// was set back: no end.
    private static func end(
        of counter: UInt32,
        in block: ControlBlock,
        after sequence: UInt64,
        presentCounter: () -> UInt32?
    ) -> UInt64 {
        let last = block.lastSequence
        // Another ring, or overrun: up to the reader.
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
