import Synchronization

/// A participant's part in writing the change ring (rules R1, R2, R4). Confined to the writer's queue.
package struct ChangePublisher {
    package let participant: Participant
    private var dictionary: TableDictionary
    private var reserved: UInt64?

    package init(_ participant: Participant) {
        self.participant = participant
        self.dictionary = TableDictionary(participant.block)
    }

    /// Whether a record waits to be settled.
    package var hasReserved: Bool { reserved != nil }

    /// Announces the commit that is about to be made. With SQLite's write lock held.
    ///
    /// - Parameters:
    ///   - counter: the commit counter as it is now.
    ///   - tables: those that may have been written.
    ///   - areUnknown: whether there may be others.
    package mutating func reserve(counter: UInt32, tables: some Collection<String>, areUnknown: Bool, now: Nanoseconds)
    {
        let block = participant.block
        let last = block.lastSequence
        settlePredecessor(last, counter: counter)
        let sequence = last &+ 1
        var set = TableSet(isUnknown: areUnknown)
        if !areUnknown {
            for table in tables {
                if let number = dictionary.number(adding: table) { set.insert(number) } else { set.isUnknown = true }
            }
        }
        func store(_ field: Int, _ value: UInt64) {
            block.recordWord(sequence, field).pointee.store(value, ordering: .relaxed)
        }
        store(Layout.Record.sequence, 0)
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        store(Layout.Record.state, UInt64(ChangeRecord.State.reserved.rawValue))
        store(Layout.Record.counter, UInt64(counter &+ 1) | (set.isUnknown ? 1 << 32 : 0))
        store(Layout.Record.owner, participant.ownerWord)
        store(Layout.Record.time, now)
        for index in 0..<Layout.tableWords { store(Layout.Record.tables + index * 8, set.words[index]) }
        for step in stride(from: 0, to: Layout.Slot.authorSize, by: 8) {
            store(Layout.Record.author + step, participant.slot.authorWord(step))
        }
        store(Layout.Record.checksum, block.recordChecksum(sequence))
        block.recordWord(sequence, Layout.Record.sequence).pointee.store(sequence, ordering: .releasing)
        block.lastRecord.pointee.store(sequence, ordering: .sequentiallyConsistent)
        reserved = sequence
    }

    /// Says what became of the commit, and wakes those who wait for news of it.
    package mutating func settle(_ state: ChangeRecord.State) {
        guard let sequence = reserved else { return }
        reserved = nil
        let block = participant.block
        guard block.recordWord(sequence, Layout.Record.sequence).pointee.load(ordering: .acquiring) == sequence else {
            return
        }
        let word = block.recordWord(sequence, Layout.Record.state)
        // Whoever committed since may have called it unsure (rule R4).
        let expected: [ChangeRecord.State] = state == .void ? [.reserved] : [.reserved, .unsure]
        for old in expected
        where word.pointee.compareExchange(
            expected: UInt64(old.rawValue),
            desired: UInt64(state.rawValue),
            ordering: .sequentiallyConsistent
        ).exchanged {
            break
        }
        guard state != .void else { return }
        block.news.pointee.wrappingAdd(1, ordering: .sequentiallyConsistent)
        Futex.wake(block.news, all: true)
    }

    /// Rule R4.
    private func settlePredecessor(_ sequence: UInt64, counter: UInt32) {
        let block = participant.block
        guard sequence > 0, let record = block.record(sequence), record.state == .reserved else { return }
        let state: ChangeRecord.State = record.counter == counter ? .unsure : .void
        _ = block.recordWord(sequence, Layout.Record.state).pointee.compareExchange(
            expected: UInt64(ChangeRecord.State.reserved.rawValue),
            desired: UInt64(state.rawValue),
            ordering: .sequentiallyConsistent
        )
    }
}
