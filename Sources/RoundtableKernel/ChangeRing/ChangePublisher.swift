import Synchronization

/// Writes a participant's records to the change ring (rules R1, R2, R4). It is confined to the writer's queue.
package final class ChangePublisher {
    package let participant: Participant
    private var dictionary: TableDictionary
    private var reserved: UInt64?
    /// When this participant began the last increment after which it woke the waiters for news.
    private var lastAnnounced: Nanoseconds?
    private var lastTables: (names: [String], entries: [TableDictionary.Entry], set: TableSet) = ([], [], .unknown)

    package init(_ participant: Participant) {
        self.participant = participant
        self.dictionary = TableDictionary(participant.block)
    }

    /// Whether a reserved record is to be settled.
    package var hasReserved: Bool { reserved != nil }

    /// Reserves a record for the commit that is about to be made. SQLite's write lock must be held.
    ///
    /// - Parameters:
    ///   - counter: the present value of the commit counter.
    ///   - tables: the tables that may have been written; nil: unknown.
    package func reserve(counter: UInt32, tables: [String]?, now: Nanoseconds) {
        settlePredecessor(participant.block.lastSequence, counter: counter)
        reserved = append(counter: counter, tableSet(tables), now: now)
    }

    /// Adds a reserved record for the commit after `counter`.
    private func append(counter: UInt32, _ set: TableSet, now: Nanoseconds) -> UInt64 {
        let block = participant.block
        let sequence = block.lastSequence &+ 1
        var record = RecordWriter(block, sequence)
        record.put(Layout.Record.counter, UInt64(counter &+ 1) | (set.isUnknown ? 1 << 32 : 0))
        record.put(Layout.Record.owner, participant.ownerWord)
        record.put(Layout.Record.time, now)
        for index in 0..<Layout.tableWords { record.put(Layout.Record.tables + index * 8, set.words[index]) }
        for step in stride(from: 0, to: Layout.Slot.authorSize, by: 8) {
            record.put(Layout.Record.author + step, participant.slot.authorWord(step))
        }
        record.finish()
        block.lastRecord.pointee.store(sequence, ordering: .sequentiallyConsistent)
        return sequence
    }

    /// Publishes the commits that the reserved record stood for, each in its own record, and makes the reserved record void (rule U5).
    /// SQLite's write lock must be held.
    ///
    /// - Parameters:
    ///   - counter: the commit counter before the first of the commits.
    ///   - count: the number of commits, at least one.
    ///   - tables: the tables that any of the commits may have written; nil: unknown.
    /// - returns: false, without any effect, when no record is reserved or another record has been reserved since.
    package func settle(commits count: Int, after counter: UInt32, tables: [String]?, now: Nanoseconds) -> Bool {
        let block = participant.block
        guard let placeholder = reserved, block.lastSequence == placeholder, block.isReserved(placeholder) else {
            return false
        }
        let set = tableSet(tables)
        for index in 0..<count {
            let sequence = append(counter: counter &+ UInt32(index), set, now: now)
            block.changeState(of: sequence, from: .reserved, to: .committed)
        }
        // The placeholder becomes void last. Until then, a reader waits at it and reports no gap.
        block.changeState(of: placeholder, from: .reserved, to: .void)
        reserved = nil
        announce()
        return true
    }

    /// Returns the set of `tables`. The last set is cached, because transactions often write the same tables as the one before.
    private func tableSet(_ tables: [String]?) -> TableSet {
        guard let tables else { return .unknown }
        if tables == lastTables.names, lastTables.entries.allSatisfy({ dictionary.isPresent($0) }) {
            return lastTables.set
        }
        let entries = tables.compactMap { dictionary.entry(adding: $0) }
        var set = TableSet(isUnknown: entries.count < tables.count)
        for entry in entries { set.insert(entry.number) }
        lastTables = (tables, entries, set)
        return set
    }

    /// Records the outcome of the commit, and notifies the waiters for news unless the record is void.
    package func settle(_ state: ChangeRecord.State) {
        guard let sequence = reserved else { return }
        reserved = nil
        let block = participant.block
        if !block.changeState(of: sequence, from: .reserved, to: state), state != .void {
            // A later committer has marked the record unsure (rule R4), or the ring has overwritten it.
            block.changeState(of: sequence, from: .unsure, to: state)
        }
        guard state != .void else { return }
        announce()
    }

    /// Increments the news word, and wakes the waiters for news unless rule N8 spares the wake.
    private func announce() {
        let block = participant.block
        // A waiter that has seen this increment sleeps for longer only after this time and `watch`. By then, what comes without a wake has
        // come (rule N8), however long this thread is held up before the wake.
        let began = MonotonicClock.now
        block.news.pointee.wrappingAdd(1, ordering: .sequentiallyConsistent)
        if let lastAnnounced, MonotonicClock.now &- lastAnnounced < ControlBlock.wakeInterval { return }
        lastAnnounced = began
        Futex.wake(block.news, all: true)
    }

    /// Settles a record that its owner left reserved (rule R4).
    private func settlePredecessor(_ sequence: UInt64, counter: UInt32) {
        let block = participant.block
        guard block.isReserved(sequence), let record = block.record(sequence), record.state == .reserved else { return }
        block.changeState(of: sequence, from: .reserved, to: record.counter == counter ? .unsure : .void)
    }
}

/// Fills a record, field by field, in the order of the layout.
private struct RecordWriter {
    private let base: UnsafeMutableRawPointer
    private let sequence: UInt64
    private var checksum: RecordChecksum

    init(_ block: ControlBlock, _ sequence: UInt64) {
        base = block.recordBase(sequence)
        self.sequence = sequence
        checksum = RecordChecksum(sequence)
        // Sequence 0 shows concurrent readers that the record is being written.
        store(Layout.Record.sequence, 0)
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        store(Layout.Record.state, ChangeRecord.State.reserved.word(sequence))
    }

    mutating func put(_ field: Int, _ value: UInt64) {
        store(field, value)
        checksum.add(value)
    }

    func finish() {
        store(Layout.Record.checksum, checksum.value)
        word(Layout.Record.sequence).pointee.store(sequence, ordering: .releasing)
    }

    private func word(_ field: Int) -> UnsafeMutablePointer<Atomic<UInt64>> {
        (base + field).assumingMemoryBound(to: Atomic<UInt64>.self)
    }

    private func store(_ field: Int, _ value: UInt64) { word(field).pointee.store(value, ordering: .relaxed) }
}
