import Synchronization

/// Access to the change ring in shared memory. Reading works on a read-only mapping.
extension ControlBlock {
    var lastRecord: UnsafeMutablePointer<Atomic<UInt64>> { word(at: Layout.Header.lastRecord) }
    var news: UnsafeMutablePointer<Atomic<UInt32>> { halfWord(at: Layout.Header.news) }

    func recordBase(_ sequence: UInt64) -> UnsafeMutableRawPointer {
        base + Layout.ring + Int(sequence % UInt64(Layout.recordCount)) * Layout.recordSize
    }

    func recordWord(_ sequence: UInt64, _ field: Int) -> UnsafeMutablePointer<Atomic<UInt64>> {
        (recordBase(sequence) + field).assumingMemoryBound(to: Atomic<UInt64>.self)
    }

    /// The sequence of the last record; 0: none.
    package var lastSequence: UInt64 { lastRecord.pointee.load(ordering: .acquiring) }

    /// The record of a sequence; nil when it is overwritten, being written, or damaged. There is no record 0, because a ring begins with 1.
    package func record(_ sequence: UInt64) -> ChangeRecord? {
        guard sequence > 0, let record = recordUnchecked(sequence) else { return nil }
        // The fields belong together if the sequence has not changed (as in rule P3).
        atomicMemoryFence(ordering: .acquiring)
        return recordWord(sequence, Layout.Record.sequence).pointee.load(ordering: .relaxed) == sequence ? record : nil
    }

    private func recordUnchecked(_ sequence: UInt64) -> ChangeRecord? {
        guard recordWord(sequence, Layout.Record.sequence).pointee.load(ordering: .acquiring) == sequence else {
            return nil
        }
        func load(_ field: Int) -> UInt64 { recordWord(sequence, field).pointee.load(ordering: .relaxed) }
        let state = ChangeRecord.State(word: load(Layout.Record.state), sequence: sequence)
        guard let state, load(Layout.Record.checksum) == recordChecksum(sequence) else { return nil }
        let counter = load(Layout.Record.counter)
        var tables = TableSet(isUnknown: counter >> 32 != 0)
        for index in 0..<Layout.tableWords { tables.words[index] = load(Layout.Record.tables + index * 8) }
        return ChangeRecord(
            sequence: sequence,
            state: state,
            counter: UInt32(truncatingIfNeeded: counter),
            owner: OwnerWord(rawValue: load(Layout.Record.owner)),
            time: load(Layout.Record.time),
            tables: tables,
            author: SharedText.read(size: Layout.Slot.authorSize) { load(Layout.Record.author + $0) }.text
        )
    }

    /// The checksum of the fields that are written once.
    private func recordChecksum(_ sequence: UInt64) -> UInt64 {
        var checksum = RecordChecksum(sequence)
        for field in stride(from: Layout.Record.counter, to: Layout.Record.checksum, by: 8) {
            checksum.add(recordWord(sequence, field).pointee.load(ordering: .relaxed))
        }
        return checksum.value
    }

    // MARK: States

    /// - returns: whether the record was in the old state; false also when the ring has overwritten it.
    @discardableResult
    func changeState(of sequence: UInt64, from old: ChangeRecord.State, to new: ChangeRecord.State) -> Bool {
        recordWord(sequence, Layout.Record.state).pointee.compareExchange(
            expected: old.word(sequence),
            desired: new.word(sequence),
            ordering: .sequentiallyConsistent
        ).exchanged
    }

    func isReserved(_ sequence: UInt64) -> Bool {
        recordWord(sequence, Layout.Record.state).pointee.load(ordering: .acquiring)
            == ChangeRecord.State.reserved.word(sequence)
    }

    // MARK: News

    /// The news word to pass to `waitForNews`. It must be read before the ring.
    package var newsWord: UInt32 { news.pointee.load(ordering: .acquiring) }

    /// A participant wakes the waiters for news at most once in this time, in ns (rule N8).
    static let wakeInterval: Nanoseconds = 100_000

    /// How long a waiter sleeps before it reads the news word again: `wakeInterval`, and the largest clock difference of two processors.
    private static let watch: Nanoseconds = wakeInterval + 10_000

    /// The longest wait for news. A waiter that sleeps on a truncated file is never woken (rule G3).
    package static let longestNewsWait: Nanoseconds = 300_000_000_000

    /// Sleeps until a participant publishes a commit, `interruptNews` is called, or `timeout` or `longest` is over.
    package func waitForNews(
        after seen: UInt32,
        timeout: Nanoseconds,
        longest: Nanoseconds = longestNewsWait
    ) -> Futex.Outcome {
        let timeout = min(timeout, longest)
        // A participant that has just woken the waiters publishes its next commit without a wake (rule N8).
        let outcome = Futex.wait(on: news, while: seen, timeout: min(timeout, Self.watch))
        guard outcome == .timedOut, timeout > Self.watch else { return outcome }
        return Futex.wait(on: news, while: seen, timeout: timeout - Self.watch)
    }

    /// Wakes the waiters for news of all processes without news. They look, and sleep again.
    package func interruptNews() { Futex.wake(news, all: true) }
}

/// The checksum that detects damaged records.
struct RecordChecksum {
    private(set) var value: UInt64

    init(_ sequence: UInt64) { value = sequence &+ 0x9E37_79B9_7F4A_7C15 }

    mutating func add(_ word: UInt64) {
        value = (value ^ word) &* 0xFF51_AFD7_ED55_8CCD
        value ^= value >> 32
    }
}
