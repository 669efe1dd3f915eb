import Foundation
import Synchronization
import Testing

@testable import RoundtableKernel

/// The bytes of `docs/protocol-vectors.json`, which were computed from the text of `docs/PROTOCOL.md` and not by this code. The code
/// reads and writes exactly them (rules B3, P2, R1, R6).
@Suite struct ProtocolVectorTests {
    let vectors: Vectors
    let folder: TemporaryFolder
    let block: ControlBlock

    init() throws {
        let root = URL(fileURLWithPath: #filePath).appendingPathComponent("../../..").standardizedFileURL
        let data = try Data(contentsOf: root.appendingPathComponent("docs/protocol-vectors.json"))
        vectors = try JSONDecoder().decode(Vectors.self, from: data)
        folder = try TemporaryFolder()
        block = try ControlBlock.openOrCreate(forDatabaseAt: folder.file("a"), access: FileAccess(mode: 0o644))
    }

    // MARK: The header

    @Test func checksums() throws {
        for vector in vectors.fnv1a {
            #expect(try Checksum.fnv1a(bytes(vector.bytes)) == word(vector.sum))
        }
    }

    @Test func theSeal() throws {
        let seal = try bytes(vectors.seal.bytes)
        #expect(Layout.seal() == seal)
        #expect(present(at: 0, count: seal.count) == seal)
        #expect(present(at: seal.count, count: 128 - seal.count).allSatisfy { $0 == 0 })
        #expect(vectors.seal.version == Layout.version && vectors.seal.headerSize == Layout.headerSize)
        #expect(vectors.seal.slotSize == Layout.slotSize && vectors.seal.slotCount == Layout.slotCount)
        #expect(vectors.seal.fileSize == Layout.fileSize)
        #expect(try Checksum.fnv1a(seal[..<32]) == word(vectors.seal.checksum))
    }

    @Test func turnWords() throws {
        for vector in vectors.turns {
            let turn = Turn(rawValue: try word(vector.word))
            #expect("\(turn.phase)" == vector.phase && turn.slot == vector.slot)
            #expect(turn.generation == vector.generation)
            #expect(Turn(turn.phase, slot: vector.slot, generation: vector.generation).rawValue == turn.rawValue)
        }
        for vector in vectors.turnsThatCountAsFree {
            #expect(try Turn(rawValue: word(vector)).phase == .free)
        }
    }

    // MARK: A slot

    @Test func aSlotIsRead() throws {
        let vector = vectors.slot
        let slot = block.slot(3)
        try put(bytes(vector.bytes), at: Layout.headerSize + 3 * Layout.slotSize)
        let owner = OwnerWord(rawValue: slot.owner.pointee.load(ordering: .acquiring))
        #expect(owner.pid == vector.pid && owner.incarnation == vector.incarnation)
        #expect(slot[.startTime] == vector.startTime && slot[.namespace] == vector.namespace)
        let traits = slot.traits
        #expect("\(traits.role)" == vector.role && "\(traits.state)" == vector.state)
        #expect(traits.priority == vector.priority && traits.incarnation == vector.incarnation)
        #expect(traits.isLocked == vector.isLocked && traits.refusesWrites == vector.refusesWrites)
        #expect(slot.ticket.pointee.load(ordering: .acquiring) == vector.ticket)
        #expect(slot.wakeWord.pointee.load(ordering: .acquiring) == vector.wakeWord)
        #expect(slot[.waitingSince] == vector.waitingSince && slot[.lingerUntil] == vector.lingerUntil)
        #expect(slot[.writingSince] == vector.writingSince && slot[.turnsTaken] == vector.turnsTaken)
        #expect(slot[.longestWait] == vector.longestWait && slot[.joinedAt] == vector.joinedAt)
        #expect(slot.author == vector.author && slot.callSite == vector.callSite)
        let mark = WalMark(frames: vector.oldestReadFrames, salt: vector.oldestReadSalt)
        #expect(slot.oldestRead == OldestRead(since: vector.oldestReadSince, mark: mark))
        #expect(slot.readCallSite == vector.readCallSite)
        #expect(slot[.askedToAdvance] == vector.askedToAdvance && slot[.commandsFolder] == vector.commandsFolder)
        #expect(try slot[.databaseStamp] == word(vector.databaseStamp))
        #expect(slot[.companionStamp] == UInt64(vector.incarnation) << 32 | UInt64(vector.companionStamp))
    }

    @Test func aSlotIsWritten() throws {
        let vector = vectors.slot
        let slot = block.slot(3)
        let owner = OwnerWord(pid: vector.pid, incarnation: vector.incarnation)
        #expect(slot.swapOwner(from: 0, to: owner.rawValue))
        slot[.startTime] = vector.startTime
        slot[.namespace] = vector.namespace
        var traits = ParticipantTraits(role: .readWrite, priority: vector.priority, state: .settingUp)
        traits.isLocked = vector.isLocked
        traits.refusesWrites = vector.refusesWrites
        traits.incarnation = vector.incarnation
        slot.traits = traits
        slot.ticket.pointee.store(vector.ticket, ordering: .sequentiallyConsistent)
        slot.wakeWord.pointee.store(vector.wakeWord, ordering: .sequentiallyConsistent)
        slot[.waitingSince] = vector.waitingSince
        slot[.lingerUntil] = vector.lingerUntil
        slot[.writingSince] = vector.writingSince
        slot[.turnsTaken] = vector.turnsTaken
        slot[.longestWait] = vector.longestWait
        slot[.joinedAt] = vector.joinedAt
        slot.author = vector.author
        slot.setCallSite(CallSite("Feed.swift", 42))
        let mark = WalMark(frames: vector.oldestReadFrames, salt: vector.oldestReadSalt)
        slot.setReadCallSite(CallSite("Widget.swift", 7))
        slot.show(OldestRead(since: vector.oldestReadSince, mark: mark))
        slot[.askedToAdvance] = vector.askedToAdvance
        slot[.commandsFolder] = vector.commandsFolder
        slot[.databaseStamp] = try word(vector.databaseStamp)
        slot[.companionStamp] = UInt64(vector.incarnation) << 32 | UInt64(vector.companionStamp)
        let place = Layout.headerSize + 3 * Layout.slotSize
        #expect(try present(at: place, count: Layout.slotSize) == bytes(vector.bytes))
    }

    /// Rule P15.
    @Test func theStampOfADatabase() throws {
        let file = vectors.slot.files.database
        let stamps = FileStamps(database: try word(vectors.slot.databaseStamp), companions: 0)
        #expect(stamps.isOf(FileIdentity(device: file.device, inode: file.inode)))
        #expect(!stamps.isOf(FileIdentity(device: file.device, inode: file.inode + 1)))
    }

    // MARK: The ring

    @Test func aDictionaryEntry() throws {
        let vector = vectors.dictionaryEntry
        var writer = TableDictionary(block)
        #expect(writer.entry(adding: vector.name)?.number == 0)
        #expect(try present(at: Layout.tables, count: Layout.tableSize) == bytes(vector.bytes))
        try put(bytes(vector.bytes), at: Layout.tables + 5 * Layout.tableSize)
        var reader = TableDictionary(block)
        #expect(reader.name(5) == vector.name)
    }

    @Test func aRecordIsRead() throws {
        let vector = vectors.record
        try put(bytes(vector.bytes), at: place(ofRecord: vector.sequence))
        let record = try #require(block.record(vector.sequence))
        #expect(record.sequence == vector.sequence && "\(record.state)" == vector.state)
        #expect(record.counter == vector.counter && record.time == vector.time && record.author == vector.author)
        #expect(record.owner == OwnerWord(pid: vector.pid, incarnation: vector.incarnation))
        #expect(record.tables.numbers == vector.tables && record.tables.isUnknown == vector.tablesAreUnknown)
        // Any changed byte but the one of the state makes it damaged.
        for index in 0..<Layout.recordSize where index != Layout.Record.state {
            var damaged = try bytes(vector.bytes)
            damaged[index] ^= 1
            put(damaged, at: place(ofRecord: vector.sequence))
            #expect(block.record(vector.sequence) == nil, "byte \(index)")
        }
    }

    /// The record is that of a participant of this process, so its owner and its checksum are others than those of the vector.
    @Test func aRecordIsWritten() throws {
        let vector = vectors.record
        var dictionary = TableDictionary(block)
        for number in 0...200 { #expect(dictionary.entry(adding: "t\(number)")?.number == number) }
        let traits = ParticipantTraits(role: .readWrite, priority: 1)
        let participant = try Participant(in: block, author: vector.author, traits: traits)
        block.lastRecord.pointee.store(vector.sequence - 1, ordering: .sequentiallyConsistent)
        let publisher = ChangePublisher(participant)
        publisher.reserve(counter: vector.counter - 1, tables: vector.tables.map { "t\($0)" }, now: vector.time)
        publisher.settle(.committed)
        #expect(block.lastSequence == vector.sequence)

        var expected = try bytes(vector.bytes)
        expected.store(participant.ownerWord, at: Layout.Record.owner)
        var checksum = RecordChecksum(vector.sequence)
        for field in stride(from: Layout.Record.counter, to: Layout.Record.checksum, by: 8) {
            checksum.add(expected.word(at: field))
        }
        expected.store(checksum.value, at: Layout.Record.checksum)
        #expect(present(at: place(ofRecord: vector.sequence), count: Layout.recordSize) == expected)

        // The vector's own checksum, which was computed by the text.
        let original = try bytes(vector.bytes)
        checksum = RecordChecksum(vector.sequence)
        for field in stride(from: Layout.Record.counter, to: Layout.Record.checksum, by: 8) {
            checksum.add(original.word(at: field))
        }
        #expect(checksum.value == original.word(at: Layout.Record.checksum))
    }

    // MARK: Bytes

    private func place(ofRecord sequence: UInt64) -> Int {
        Layout.ring + Int(sequence % UInt64(Layout.recordCount)) * Layout.recordSize
    }

    private func present(at offset: Int, count: Int) -> [UInt8] {
        Array(UnsafeRawBufferPointer(start: block.base + offset, count: count))
    }

    private func put(_ bytes: [UInt8], at offset: Int) {
        UnsafeMutableRawBufferPointer(start: block.base + offset, count: bytes.count).copyBytes(from: bytes)
    }

    private func word(_ digits: String) throws -> UInt64 { try #require(UInt64(digits, radix: 16)) }

    private func bytes(_ digits: String) throws -> [UInt8] {
        let characters = Array(digits)
        try #require(characters.count % 2 == 0)
        return try stride(from: 0, to: characters.count, by: 2).map {
            try #require(UInt8(String(characters[$0..<$0 + 2]), radix: 16))
        }
    }
}

extension [UInt8] {
    fileprivate func word(at offset: Int) -> UInt64 {
        self[offset..<offset + 8].reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
    }

    fileprivate mutating func store(_ word: UInt64, at offset: Int) {
        for index in 0..<8 { self[offset + index] = UInt8(truncatingIfNeeded: word >> UInt64(index * 8)) }
    }
}

extension ProtocolVectorTests {
    /// What `docs/protocol-vectors.json` has of shared memory.
    struct Vectors: Decodable {
        struct Sum: Decodable { let bytes, sum: String }
        struct Seal: Decodable {
            let bytes, checksum: String
            let version: UInt32
            let headerSize, slotSize, slotCount, fileSize: Int
        }
        struct TurnWord: Decodable {
            let word, phase: String
            let generation: UInt32
            let slot: Int?
        }
        struct File: Decodable { let device, inode: UInt64 }
        struct Files: Decodable { let database, wal, shm: File }
        struct Slot: Decodable {
            let bytes, role, state, author, callSite, readCallSite, databaseStamp: String
            let pid: Int32
            let incarnation, wakeWord, oldestReadFrames, oldestReadSalt, companionStamp: UInt32
            let priority: UInt8
            let isLocked, refusesWrites: Bool
            let startTime, namespace, ticket, waitingSince, lingerUntil, writingSince, turnsTaken: UInt64
            let longestWait, joinedAt, oldestReadSince, askedToAdvance, commandsFolder: UInt64
            let files: Files
        }
        struct Entry: Decodable { let bytes, name: String }
        struct Record: Decodable {
            let bytes, state, author: String
            let pid: Int32
            let incarnation, counter: UInt32
            let sequence, time: UInt64
            let tables: [Int]
            let tablesAreUnknown: Bool
        }

        let fnv1a: [Sum]
        let seal: Seal
        let turns: [TurnWord]
        let turnsThatCountAsFree: [String]
        let slot: Slot
        let dictionaryEntry: Entry
        let record: Record
    }
}
