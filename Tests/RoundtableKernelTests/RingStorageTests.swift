import RoundtableTrials
import Synchronization
import Testing

@testable import RoundtableKernel

/// The change ring in a control block: what publishers write, and readers read.
@Suite struct RingStorageTests {
    let folder: TemporaryFolder
    let block: ControlBlock

    init() throws {
        folder = try TemporaryFolder()
        block = try ControlBlock.openOrCreate(forDatabaseAt: folder.file("a"), access: FileAccess(mode: 0o644))
    }

    private func participant(_ author: String) throws -> Participant {
        let traits = ParticipantTraits(role: .readWrite, priority: 1)
        return try Participant(in: block, author: author, traits: traits)
    }

    private func names(_ record: ChangeRecord) -> Set<String?> {
        var dictionary = TableDictionary(block)
        return Set(record.tables.numbers.map { dictionary.name($0) })
    }

    /// Rules R1, R2.
    @Test func aCommitIsReservedAndPublished() throws {
        let participant = try participant("a")
        let publisher = ChangePublisher(participant)
        let news = block.newsWord
        publisher.reserve(counter: 7, tables: ["x", "y"], now: 42)
        var record = try #require(block.record(1))
        #expect(block.lastSequence == 1 && block.newsWord == news && publisher.hasReserved)
        #expect(record.state == .reserved && record.counter == 8 && record.time == 42)
        #expect(record.owner == participant.owner && record.author == "a")
        #expect(names(record) == ["x", "y"] && !record.tables.isUnknown)
        publisher.settle(.committed)
        record = try #require(block.record(1))
        #expect(record.state == .committed && block.newsWord == news &+ 1 && !publisher.hasReserved)
        // Once.
        publisher.settle(.void)
        #expect(block.record(1) == record)
        #expect(block.record(0) == nil && block.record(2) == nil)
    }

    /// Rule R4: what the next publisher makes of a record that was not settled, and what its late owner may still say.
    @Test(arguments: [
        (8 as UInt32, ChangeRecord.State.committed, ChangeRecord.State.unsure, ChangeRecord.State.committed),
        (8, .aside, .unsure, .aside), (8, .void, .unsure, .unsure), (7, .void, .void, .void),
        (7, .committed, .void, .void), (9, .committed, .void, .void),
    ])
    func thePredecessorIsSettled(
        counter: UInt32,
        late: ChangeRecord.State,
        settled: ChangeRecord.State,
        atLast: ChangeRecord.State
    ) throws {
        let first = ChangePublisher(try participant("first"))
        let second = ChangePublisher(try participant("second"))
        first.reserve(counter: 7, tables: ["x"], now: 1)
        second.reserve(counter: counter, tables: ["x"], now: 2)
        #expect(block.record(1)?.state == settled)
        first.settle(late)
        #expect(block.record(1)?.state == atLast)
        second.settle(.committed)
        // What is settled stays so.
        second.reserve(counter: counter &+ 1, tables: ["x"], now: 3)
        #expect(block.record(1)?.state == atLast && block.record(2)?.state == .committed)
    }

    /// Rule U5: several commits, and other tables than those that were reserved for, are reported one by one, and without a gap.
    @Test func severalCommitsTakeThePlaceOfOne() throws {
        let publisher = ChangePublisher(try participant("handle"))
        var reader = RingReader(sequence: block.lastSequence, counter: 7)
        publisher.reserve(counter: 7, tables: nil, now: 1)
        let news = block.newsWord
        #expect(publisher.settle(commits: 3, after: 7, tables: ["x"], now: 2))
        #expect(block.newsWord == news &+ 1 && !publisher.hasReserved)
        #expect(block.record(1)?.state == .void)
        var reported: [RingReader.News] = []
        _ = reader.read(
            now: 3,
            counter: { 10 },
            last: { block.lastSequence },
            record: { block.record($0) },
            isRunning: { _ in true },
            report: { reported.append($0) }
        )
        let counters = reported.map { news -> UInt32? in
            guard case .change(let record) = news, names(record) == ["x"], record.author == "handle" else { return nil }
            return record.counter
        }
        #expect(counters == [8, 9, 10])
        #expect(reader.counter == 10 && reader.sequence == 4)
    }

    /// Rule U5: a publisher that has reserved since knows nothing of these commits.
    @Test func commitsAreNotReportedAfterAnothersReservation() throws {
        let handle = ChangePublisher(try participant("handle"))
        let other = ChangePublisher(try participant("other"))
        handle.reserve(counter: 7, tables: nil, now: 1)
        other.reserve(counter: 8, tables: ["y"], now: 2)
        #expect(!handle.settle(commits: 1, after: 7, tables: ["x"], now: 3))
        handle.settle(.unsure)
        #expect(block.record(1)?.state == .unsure && block.lastSequence == 2)
    }

    /// A publisher that comes back when the ring has come around leaves the record that took its place alone.
    @Test func aPublisherThatIsLaterThanTheRing() throws {
        let frozen = ChangePublisher(try participant("frozen"))
        let other = ChangePublisher(try participant("other"))
        frozen.reserve(counter: 0, tables: ["x"], now: 1)
        for index in 0..<UInt32(Layout.recordCount) {
            other.reserve(counter: 1 + index, tables: ["x"], now: 1)
            if index + 1 < Layout.recordCount { other.settle(.committed) }
        }
        frozen.settle(.committed)
        #expect(block.record(1) == nil)
        #expect(block.record(1 + UInt64(Layout.recordCount))?.state == .reserved)
    }

    /// The publisher is killed between filling a record and announcing it to the ring: the record is filled again.
    @Test func aRecordThatIsNotAnnounced() throws {
        let dead = ChangePublisher(try participant("dead"))
        dead.reserve(counter: 7, tables: ["x"], now: 1)
        block.lastRecord.pointee.store(0, ordering: .relaxed)
        let other = ChangePublisher(try participant("other"))
        other.reserve(counter: 7, tables: ["y"], now: 2)
        #expect(block.lastSequence == 1)
        #expect(block.record(1)?.author == "other")
    }

    // MARK: The dictionary

    /// Rule R6.
    @Test func theDictionaryOverflows() throws {
        let publisher = ChangePublisher(try participant("a"))
        let many = (0..<Layout.tableCount - 1).map { "table \($0)" }
        publisher.reserve(counter: 1, tables: many, now: 1)
        #expect(names(try #require(block.record(1))) == Set(many))
        publisher.settle(.committed)
        publisher.reserve(counter: 2, tables: ["last", "one too many"], now: 1)
        let record = try #require(block.record(2))
        #expect(record.tables.isUnknown && names(record) == ["last"])
        publisher.settle(.committed)
        // Those that are known stay known.
        publisher.reserve(counter: 3, tables: ["table 3"], now: 1)
        #expect(try #require(block.record(3)).tables.isUnknown == false)
    }

    @Test(arguments: [
        (String(repeating: "x", count: 120), true), (String(repeating: "x", count: 121), false),
        (String(repeating: "ü", count: 60), true), (String(repeating: "ü", count: 61), false),
        ("with\0zero", false), ("", false),
    ])
    func namesThatDoNotFit(name: String, fits: Bool) throws {
        let publisher = ChangePublisher(try participant("a"))
        publisher.reserve(counter: 1, tables: [name], now: 1)
        let record = try #require(block.record(1))
        #expect(record.tables.isUnknown == !fits)
        #expect(names(record) == (fits ? [name] : []))
    }

    /// An entry that is damaged has no name, and is not found.
    @Test func aDamagedEntry() throws {
        var writer = TableDictionary(block)
        #expect(writer.entry(adding: "x")?.number == 0)
        block.word(at: Layout.tables + 8).pointee.store(0x7A7A, ordering: .relaxed)
        var reader = TableDictionary(block)
        #expect(reader.name(0) == nil)
        #expect(reader.entry(adding: "x")?.number == 1)
        #expect(reader.name(-1) == nil && reader.name(Layout.tableCount) == nil)
    }

    /// Rule R6: entries never change, even when their number is damaged, nor for readers that have read them before.
    @Test(arguments: [0, 1, UInt64.max])
    func theNumberOfEntriesIsDamaged(number: UInt64) throws {
        var early = TableDictionary(block)
        #expect(early.entry(adding: "x")?.number == 0)
        #expect(early.entry(adding: "y")?.number == 1)
        block.word(at: Layout.Header.tablesInUse).pointee.store(number, ordering: .relaxed)
        var late = TableDictionary(block)
        let added = late.entry(adding: "z")?.number
        #expect(added.map { early.name($0) } ?? "z" == "z")
        #expect(early.name(0) == "x" && early.name(1) == "y")
    }

    /// A dictionary that was overwritten with zeros, and is filled again, is not read from memory.
    @Test func theDictionaryIsEmptied() throws {
        var early = TableDictionary(block)
        #expect(early.entry(adding: "x")?.number == 0)
        for offset in stride(from: 0, to: Layout.tableSize, by: 8) {
            block.word(at: Layout.tables + offset).pointee.store(0, ordering: .relaxed)
        }
        block.word(at: Layout.Header.tablesInUse).pointee.store(0, ordering: .relaxed)
        var late = TableDictionary(block)
        #expect(late.entry(adding: "z")?.number == 0)
        #expect(early.name(0) == "z")
        #expect(early.entry(adding: "x")?.number == 1)
    }

    /// A publisher, which writes the same tables again and again, does not use its memory either.
    @Test func theDictionaryIsEmptiedUnderAPublisher() throws {
        let publisher = ChangePublisher(try participant("a"))
        for counter in 1...2 as ClosedRange<UInt32> {
            publisher.reserve(counter: counter, tables: ["x"], now: 1)
            publisher.settle(.committed)
            #expect(names(try #require(block.record(UInt64(counter)))) == ["x"])
            for offset in stride(from: 0, to: Layout.tableSize, by: 8) {
                block.word(at: Layout.tables + offset).pointee.store(0, ordering: .relaxed)
            }
        }
    }

    // MARK: Garbage

    /// Rule G2: whatever is in the ring, nothing traps, no look is without end, and what is read is within bounds.
    @Test func garbage() throws {
        var random = SeededGenerator()
        let publisher = ChangePublisher(try participant("a"))
        let areas = [
            Layout.Header.lastRecord..<Layout.headerSize, Layout.tables..<Layout.ring, Layout.ring..<Layout.fileSize,
        ]
        var counter: UInt32 = 0
        var reader = RingReader(sequence: 0, counter: 0)
        for _ in 0..<1000 {
            for _ in 0..<Int.random(in: 0...20, using: &random) {
                let offset = Int.random(in: areas.randomElement(using: &random)!, using: &random) / 8 * 8
                block.word(at: offset).pointee.store(Self.nastyWord(&random), ordering: .relaxed)
            }
            if Int.random(in: 0..<10, using: &random) == 0 {
                block.lastRecord.pointee.store(Self.nastyWord(&random), ordering: .relaxed)
            }
            if Bool.random(using: &random) { try forgeRecord(&random) }
            publisher.reserve(
                counter: counter,
                tables: ["x", "\(UInt8.random(in: 0...255, using: &random))"],
                now: MonotonicClock.now
            )
            counter &+= 1
            publisher.settle(Bool.random(using: &random) ? .committed : .void)
            var reports = 0
            let now = MonotonicClock.now
            let lookAgain = reader.read(
                now: now,
                counter: { counter },
                last: { block.lastSequence },
                record: { block.record($0) },
                isRunning: { _ in true },
                report: { news in
                    reports += 1
                    guard case .change(let record) = news else { return }
                    var dictionary = TableDictionary(block)
                    for number in record.tables.numbers { _ = dictionary.name(number) }
                    #expect(record.tables.numbers.allSatisfy { (0..<Layout.tableCount).contains($0) })
                    #expect(record.author.utf8.count <= Layout.Slot.authorSize * 3)
                }
            )
            #expect(reports <= 2 * Layout.recordCount + 1)
            #expect(lookAgain ?? now <= now + RingReader.longGrace + RingReader.grace)
        }
    }

    private static func nastyWord(_ random: inout some RandomNumberGenerator) -> UInt64 {
        let nasty: [UInt64] = [0, 1, .max, .max - 1, 1 << 63, UInt64(Layout.recordCount), 0xFFFF_FFFF]
        return Bool.random(using: &random) ? nasty.randomElement(using: &random)! : random.next()
    }

    /// A record of random words whose checksum is right.
    private func forgeRecord(_ random: inout some RandomNumberGenerator) throws {
        let sequence = block.lastSequence &+ 1
        var checksum = RecordChecksum(sequence)
        for field in stride(from: Layout.Record.counter, to: Layout.Record.checksum, by: 8) {
            let word = Self.nastyWord(&random)
            block.recordWord(sequence, field).pointee.store(word, ordering: .relaxed)
            checksum.add(word)
        }
        block.recordWord(sequence, Layout.Record.state).pointee
            .store(.random(in: 0...6, using: &random) | sequence << 8, ordering: .relaxed)
        block.recordWord(sequence, Layout.Record.checksum).pointee.store(checksum.value, ordering: .relaxed)
        block.recordWord(sequence, Layout.Record.sequence).pointee.store(sequence, ordering: .relaxed)
        block.lastRecord.pointee.store(sequence, ordering: .relaxed)
    }
}
