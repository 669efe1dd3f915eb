import Foundation

@testable import RoundtableKernel

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The control block (rules G1–G3): it is read, joined, waited at and written, whatever its words are.
///
/// An input is a list of stores: a control block has 260 KB, of which a mutator would change what nobody reads.
enum ControlBlockTarget: FuzzTarget {
    static let name = "control-block"

    /// A store of the input. The places that are read are chosen more often than chance would.
    private enum Store: UInt8, CaseIterable {
        case anywhere, header, slot, entry, record
        /// A record, or an entry of the dictionary, that has the right checksum.
        case wholeRecord, wholeEntry
    }

    /// The file that all runs use. It is mapped a second time, which is how other processes write.
    private static let database = FuzzFolder.file("db")
    // A constant pointer; the fuzzer has one thread.
    nonisolated(unsafe) private static let memory: UnsafeMutableRawBufferPointer = {
        do {
            _ = try ControlBlock.openOrCreate(forDatabaseAt: database, access: nil)
            let path = ControlBlock.path(forDatabaseAt: database)
            let descriptor = open(path, O_RDWR | O_CLOEXEC)
            defer { close(descriptor) }
            let size = Layout.fileSize
            guard let base = mmap(nil, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0), base != MAP_FAILED
            else {
                throw FuzzFailure("cannot map \(path): errno \(errno)")
            }
            return .init(start: base, count: size)
        } catch {
            fatalError("\(error)")
        }
    }()

    private static let fresh = Layout.seal() + [UInt8](repeating: 0, count: Layout.fileSize - Layout.seal().count)

    static func seeds() throws -> [[UInt8]] {
        let memory = memory
        let block = try ControlBlock.open(forDatabaseAt: database, writable: true)
        let members = try ["app", "widget", "the third"].map {
            try Participant(in: block, author: $0, traits: ParticipantTraits(role: .readWrite, priority: 1))
        }
        let now = MonotonicClock.now
        let publisher = ChangePublisher(members[0])
        for (number, tables) in [["player"], ["player", "round"], nil].enumerated() {
            publisher.reserve(counter: UInt32(number), tables: tables, now: now)
            publisher.settle(.committed)
        }
        members[1].slot.setReadCallSite(CallSite(#fileID, 7))
        members[1].slot.show(OldestRead(since: now, mark: WalMark(frames: 3, salt: 9)))
        _ = members[1].takeCheckpointing(at: now)
        block.setWalSample(.init(time: now, mark: WalMark(frames: 8, salt: 9)))
        block.setCheckpointFailure(.init(time: now, code: 10, owner: members[0].owner))
        members[2].slot.ticket.pointee.store(5, ordering: .relaxed)
        block.raiseWaitingBit(members[2].slot.index)
        publisher.reserve(counter: 3, tables: ["round"], now: now)
        var stores: [UInt8] = []
        for word in stride(from: Layout.Header.turn, to: Layout.fileSize, by: 8) {
            let value = Array(memory[word..<word + 8])
            guard value.contains(where: { $0 != 0 }) else { continue }
            stores.append(Store.anywhere.rawValue)
            stores.put(UInt32(word / 8), after: ())
            stores += value
        }
        let turns = [
            Turn(.busy, slot: members[0].slot.index, generation: 3), Turn(.lingering, slot: 1, generation: .max),
            Turn(.granted, slot: 200, generation: 1), Turn(rawValue: .max),
        ]
        return [[], stores]
            + turns.map { turn in
                var store: [UInt8] = [Store.header.rawValue]
                store.put(UInt32(Layout.Header.turn / 8), after: ())
                store.put(turn.rawValue, after: ())
                return store + stores
            }
    }

    static func run(_ input: [UInt8]) throws {
        fresh.withUnsafeBytes { memory.copyMemory(from: $0) }
        var input = FuzzInput(input)
        var last: UInt64 = 0
        while !input.isEmpty { store(&input, &last) }

        let seal = Layout.seal()
        guard memory.prefix(seal.count).elementsEqual(seal) else {
            do {
                _ = try ControlBlock.open(forDatabaseAt: database, writable: true)
                fatalError("a damaged seal is accepted")
            } catch {
                guard case .damaged = error else { throw error }
                return
            }
        }
        let reader = try ControlBlock.open(forDatabaseAt: database, writable: false)
        read(reader)
        let block = try ControlBlock.open(forDatabaseAt: database, writable: true)
        let participant: Participant
        do {
            participant = try Participant(
                in: block,
                author: "fuzzer",
                traits: ParticipantTraits(role: .readWrite, priority: 1)
            )
        } catch {
            guard case .full = error else { throw error }
            return
        }
        takeTurns(participant, block)
        publish(participant, block, reader)
        elect(participant, block)
        participant.leave()
        require(!participant.isSeated, "it has left, and still has its slot")
    }

    // MARK: Writing

    private static func store(_ input: inout FuzzInput, _ last: inout UInt64) {
        let kind = Store(rawValue: input.byte() % UInt8(Store.allCases.count)) ?? .anywhere
        let place = Int(input.number(UInt32.self))
        let value: UInt64 = input.number()
        func put(_ word: Int, _ value: UInt64) { memory.storeBytes(of: value, toByteOffset: word * 8, as: UInt64.self) }
        func put(_ start: Int, _ size: Int, _ count: Int) {
            put((start + place / 256 % count * size) / 8 + place % 256 % (size / 8), value)
        }
        switch kind {
        case .anywhere: put(place % (Layout.fileSize / 8), value)
        case .header: put(place % 200, value)
        // Most runs are about the first slots, which their participants have.
        case .slot: put(Layout.headerSize, Layout.slotSize, 8)
        case .entry: put(Layout.tables, Layout.tableSize, Layout.tableCount)
        case .record: put(Layout.ring, Layout.recordSize, Layout.recordCount)
        case .wholeRecord:
            last = last &+ (value >> 60 == 0 ? value : 1)
            let start = (Layout.ring + Int(last % UInt64(Layout.recordCount)) * Layout.recordSize) / 8
            var checksum = RecordChecksum(last)
            for field in Layout.Record.counter / 8..<Layout.Record.checksum / 8 {
                let word = value &* UInt64(field) &+ UInt64(place)
                put(start + field, word)
                checksum.add(word)
            }
            put(start + Layout.Record.checksum / 8, checksum.value)
            put(start + Layout.Record.state / 8, UInt64(place % 7) | last << 8)
            put(start + Layout.Record.sequence / 8, last)
            put(Layout.Header.lastRecord / 8, last)
        case .wholeEntry:
            let name = input.bytes(Int(value % 120)).map { $0 == 0 ? 1 : $0 }
            let start = Layout.tables + place % Layout.tableCount * Layout.tableSize
            let padded = name + [UInt8](repeating: 0, count: Layout.tableSize - 8 - name.count)
            memory[start + 8..<start + Layout.tableSize].copyBytes(from: padded)
            put(start / 8, Checksum.fnv1a(name))
        }
    }

    // MARK: Reading

    private static func read(_ block: ControlBlock) {
        let now = MonotonicClock.now
        for participant in block.participants() {
            _ = participant.name
            require(participant.author.utf8.count <= Layout.Slot.authorSize * 3, "an author longer than its place")
            if let read = participant.oldestRead { _ = read.mark.framesHeld(now: WalMark(frames: 7, salt: 1)) }
        }
        for counter in ControlBlock.Counter.allCases { _ = block.value(of: counter) }
        _ = (block.checkpointer, block.walSample, block.checkpointFailure, block.mayBeFenced)
        require(block.checkpointPause(at: now) <= ControlBlock.longestCheckpointPause, "a pause longer than any")
        _ = (
            block.leavesCheckpointsToOthers(at: now), block.isRead(longerThan: 1000),
            block.hasUnknownOwners(seenFrom: .current)
        )
        for waiter in block.waiters({ now }) {
            require(waiter.slot < Layout.slotCount, "waiter in slot \(waiter.slot)")
        }

        var dictionary = TableDictionary(block)
        for number in -1...Layout.tableCount { _ = dictionary.name(number) }
        // Readers at some distances behind the last record: what they report is a whole record, with its own sequence.
        let last = block.lastSequence
        for distance: UInt64 in [0, 1, 3, 100, UInt64(Layout.recordCount), UInt64(Layout.recordCount) + 1] {
            var reader = RingReader(sequence: last &- distance, counter: 5)
            _ = reader.read(
                now: now,
                counter: { 9 },
                last: { block.lastSequence },
                record: block.record,
                isRunning: block.isRunning,
                report: { news in
                    guard case .change(let record) = news else { return }
                    require(record.sequence &- (last &- distance) <= distance, "a record that does not follow")
                    for number in record.tables.numbers { _ = dictionary.name(number) }
                }
            )
            require(reader.sequence == last || last &- reader.sequence <= distance, "the reader went back")
        }
    }

    // MARK: Taking part

    private static func takeTurns(_ participant: Participant, _ block: ControlBlock) {
        let settings = TurnSettings(priority: 1, slice: 1_000_000, patience: 1_000_000)
        let taker = TurnTaker(participant: participant, settings: settings)
        for isLockFree in [true, false] {
            let began = MonotonicClock.now
            let outcome = taker.acquire(at: began, until: began + 4_000_000, settingUp: false) { isLockFree }
            require(MonotonicClock.now - began < 2_000_000_000, "a wait of 4 ms took 2 s")
            require((outcome == .acquired) == taker.hasTurn, "\(outcome), and has the turn: \(taker.hasTurn)")
            taker.release()
            require(!taker.hasTurn, "the turn is not released")
        }
        taker.leave()
        block.clearQueue(seenFrom: participant.identity)
        _ = block.askToAdvance(end: WalMark(frames: 100, salt: 1))
    }

    /// What is published is read as it was published, or not at all.
    private static func publish(_ participant: Participant, _ block: ControlBlock, _ reader: ControlBlock) {
        guard participant.isSeated else { return }
        let publisher = ChangePublisher(participant)
        let names = ["player", "round"]
        publisher.reserve(counter: 77, tables: names, now: MonotonicClock.now)
        publisher.settle(.committed)
        let sequence = reader.lastSequence
        // After the last number there is, a ring begins with a record that nobody reads.
        guard sequence > 0 else { return }
        guard let record = reader.record(sequence) else { fatalError("the record \(sequence) is not there") }
        require(record.state == .committed && record.counter == 78, "another record: \(record)")
        require(record.owner == participant.owner && record.author == "fuzzer", "another's record: \(record)")
        var dictionary = TableDictionary(reader)
        let known = record.tables.numbers.map { dictionary.name($0) }
        require(
            record.tables.isUnknown || Set(known) == Set(names),
            "\(names) were written, and the record says \(known)"
        )
    }

    private static func elect(_ participant: Participant, _ block: ControlBlock) {
        let now = MonotonicClock.now
        if participant.takeCheckpointing(at: now) {
            require(block.checkpointer == participant.owner, "another is the checkpointer")
            participant.giveCheckpointingUp()
        }
        guard participant.isSeated else { return }
        participant.slot.setReadCallSite(.unknown)
        participant.slot.show(OldestRead(since: now, mark: WalMark(frames: 1, salt: 2)))
        require(participant.slot.oldestRead?.since == now, "another read is shown")
        participant.slot.hideRead()
    }
}

extension [UInt8] {
    fileprivate mutating func put(_ value: some FixedWidthInteger, after: Void) {
        Swift.withUnsafeBytes(of: value.littleEndian) { append(contentsOf: $0) }
    }
}

/// The control blocks of other versions, which are read with what all versions have in common (rule L6).
enum OtherBlockTarget: FuzzTarget {
    static let name = "other-control-block"

    private static func seal(_ version: UInt8) -> [UInt8] {
        var bytes = Layout.seal()
        bytes[8] = version
        return bytes
    }

    static func seeds() throws -> [[UInt8]] {
        var used = seal(9) + [UInt8](repeating: 0, count: Layout.headerSize + 4 * Layout.slotSize - Layout.seal().count)
        let owner = ProcessIdentity.current
        let words = [OwnerWord(pid: owner.pid, incarnation: 7).rawValue, owner.startTime, owner.namespace, 7 << 32]
        for (index, word) in words.enumerated() { used.put(word, at: Layout.headerSize + Layout.slotSize + index * 8) }
        return [used, seal(3), Array(seal(8).prefix(30)), []]
    }

    static func run(_ input: [UInt8]) throws {
        let name = "other\(ControlBlock.kind)99"
        try FuzzFolder.put(input, as: name)
        defer { unlink(FuzzFolder.file(name)) }
        let found = OtherControlBlock.all(besideDatabaseAt: FuzzFolder.file("other"))
        let isBlock = input.count >= 12 && input.word(at: 0) == Layout.magic
        require(found.isEmpty != isBlock, "\(found) beside \(input.count) bytes")
        for block in found { require(block.pids.allSatisfy { $0 > 0 }, "\(block.pids)") }
    }
}
