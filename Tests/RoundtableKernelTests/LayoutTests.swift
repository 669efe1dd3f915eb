import Testing

@testable import RoundtableKernel

/// The table of `docs/PROTOCOL.md`, section B: other processes, perhaps older ones, rely on each offset.
@Suite struct LayoutTests {
    @Test func theSealIsWhatVersion4Says() {
        let seal = Layout.seal()
        #expect(seal.count == 40)
        #expect(String(decoding: seal[0..<8], as: UTF8.self) == "RNDTABLE")
        #expect(Array(seal[8..<12]) == [4, 0, 0, 0])
        // Of version 4. A layout that changes this needs another version.
        #expect(Array(seal[32...]) == [1, 22, 29, 221, 137, 228, 152, 203])
    }

    @Test func fieldsDoNotOverlapAndAreAligned() {
        let header: [(Int, Int)] = [
            (0, 40), (Layout.Header.turn, 8), (Layout.Header.nextTicket, 8),
            (Layout.Header.waitingBits, 8 * Layout.waitingWords), (Layout.Header.nextIncarnation, 8),
            (Layout.Header.grants, 8 * 4), (Layout.Header.queueCleared, 8),
            (Layout.Header.lastRecord, 8), (Layout.Header.news, 4), (Layout.Header.tablesInUse, 8),
            (Layout.Header.checkpointer, 8), (Layout.Header.checkpointLease, 8), (Layout.Header.checkpointPause, 8),
            (Layout.Header.externalCheckpoints, 8),
            (Layout.Header.walSampleTime, 8), (Layout.Header.walSampleMark, 8),
            (Layout.Header.checkpointFailureTime, 8 * 3), (Layout.Header.checkpoints, 8 * 4),
        ]
        let slot: [(Int, Int)] =
            Layout.SlotNumber.allCases.map { ($0.rawValue, 8) } + [
                (Layout.Slot.owner, 8), (Layout.Slot.description, 8), (Layout.Slot.ticket, 8),
                (Layout.Slot.wakeWord, 4), (Layout.Slot.author, Layout.Slot.authorSize),
                (Layout.Slot.callSite, Layout.Slot.callSiteSize),
                (Layout.Slot.readCallSite, Layout.Slot.callSiteSize),
            ]
        let record: [(Int, Int)] = [
            (Layout.Record.sequence, 8), (Layout.Record.state, 8), (Layout.Record.counter, 8), (Layout.Record.owner, 8),
            (Layout.Record.time, 8), (Layout.Record.tables, 8 * Layout.tableWords),
            (Layout.Record.author, Layout.Slot.authorSize), (Layout.Record.checksum, 8),
        ]
        for (fields, size) in [(header, Layout.headerSize), (slot, Layout.slotSize), (record, Layout.recordSize)] {
            let fields = fields.sorted { $0.0 < $1.0 }
            for (index, field) in fields.enumerated() {
                #expect(field.0 % 8 == 0, "an atomic word is aligned")
                let end = index + 1 < fields.count ? fields[index + 1].0 : size
                #expect(field.0 + field.1 <= end, "field at \(field.0) reaches into the next")
            }
        }
        // Words that different processes write all the time have a cache line each.
        let busy = [
            Layout.Header.turn, Layout.Header.nextTicket, Layout.Header.waitingBits, Layout.Header.lastRecord,
            Layout.Header.news,
        ].map { $0 / 128 }
        #expect(Set(busy).count == busy.count)
    }

    @Test func aTurnWordKeepsItsParts() {
        for phase in [Turn.Phase.free, .granted, .busy, .lingering] {
            for slot in [0, 1, Layout.slotCount - 1] {
                let turn = Turn(phase, slot: slot, generation: .max)
                #expect(turn.phase == phase && turn.slot == slot && turn.generation == .max)
                #expect(turn.next(.free).generation == 0)
            }
        }
    }

    /// Rule G2: no word makes anyone index a slot that does not exist.
    @Test func garbageInTheTurnWordIsFree() {
        for word in [UInt64.max, 0xFFFF_0001, UInt64(Layout.slotCount + 1) << 16 | 2, 0x0001_0007] {
            #expect(Turn(rawValue: word).phase == .free)
        }
    }
}
