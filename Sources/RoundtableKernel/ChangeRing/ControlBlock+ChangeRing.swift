import Synchronization

/// The change ring in shared memory: where records are, and how they are read. Works on a mapping that may only be read.
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

    /// The record of a sequence; nil when it is overwritten, being written, or damaged. There is no record 0: a ring begins with 1.
    package func record(_ sequence: UInt64) -> ChangeRecord? {
        guard sequence > 0, let record = recordUnchecked(sequence) else { return nil }
        // Rule P3: what was read belongs together if the sequence stayed.
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

    /// Of what is written once.
    private func recordChecksum(_ sequence: UInt64) -> UInt64 {
        var checksum = RecordChecksum(sequence)
        for field in stride(from: Layout.Record.counter, to: Layout.Record.checksum, by: 8) {
            checksum.add(recordWord(sequence, field).pointee.load(ordering: .relaxed))
        }
        return checksum.value
    }

    // MARK: States

    /// - returns: whether it was in the old state; false also when the ring has come around.
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

    /// What to hand to `waitForNews`. Read it before the ring is.
    package var newsWord: UInt32 { news.pointee.load(ordering: .acquiring) }

    /// A participant wakes those who wait for news at most once in this time (rule N8).
    static let wakeInterval: Nanoseconds = 100_000

    /// Longer than that, by what the clocks of two processors may differ.
    private static let watch: Nanoseconds = wakeInterval + 10_000

    /// Nothing wakes who sleeps on a file that was truncated (rule G3).
    package static let longestNewsWait: Nanoseconds = 300_000_000_000

    /// Sleeps until somebody publishes a commit, `interruptNews` is called, the time is over, or `longest` is.
    package func waitForNews(
        after seen: UInt32,
        timeout: Nanoseconds,
        longest: Nanoseconds = longestNewsWait
    ) -> Futex.Outcome {
        let timeout = min(timeout, longest)
        // Rule N8: whoever has just woken others publishes without a wake.
        let outcome = Futex.wait(on: news, while: seen, timeout: min(timeout, Self.watch))
        guard outcome == .timedOut, timeout > Self.watch else { return outcome }
        return Futex.wait(on: news, while: seen, timeout: timeout - Self.watch)
    }

    /// Wakes those who wait, of all processes, without news: they look and sleep again.
    package func interruptNews() { Futex.wake(news, all: true) }
}

/// Tells a damaged record from a whole one.
struct RecordChecksum {
    private(set) var value: UInt64

    init(_ sequence: UInt64) { value = sequence &+ 0x9E37_79B9_7F4A_7C15 }

    mutating func add(_ word: UInt64) {
        value = (value ^ word) &* 0xFF51_AFD7_ED55_8CCD
        value ^= value >> 32
    }
}
