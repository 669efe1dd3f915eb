import Foundation
import RoundtableTrials
import Testing

@testable import RoundtableKernel

@Suite struct ControlBlockTests {
    let folder: TemporaryFolder
    let database: String
    let path: String

    init() throws {
        folder = try TemporaryFolder()
        database = folder.file("db")
        path = ControlBlock.path(forDatabaseAt: database)
    }

    private func openOrCreate(mode: mode_t? = nil) throws(ControlBlock.Unusable) -> ControlBlock {
        try ControlBlock.openOrCreate(forDatabaseAt: database, access: mode.map { FileAccess(mode: $0) })
    }

    private func open(writable: Bool = true) throws(ControlBlock.Unusable) -> ControlBlock {
        try ControlBlock.open(forDatabaseAt: database, writable: writable)
    }

    private var nameOfBlock: String { "db\(ControlBlock.ending)" }

    /// **Rule B1**: of many tasks that create it at once, all get the same file, and no temporary file stays.
    @Test func manyCreateOne() async throws {
        let identities = try await withThrowingTaskGroup(of: FileIdentity.self) { group in
            for _ in 0..<16 {
                group.addTask { try openOrCreate().file.identity }
            }
            return try await group.reduce(into: Set()) { $0.insert($1) }
        }
        #expect(identities.count == 1)
        #expect(folder.contents == [nameOfBlock])
    }

    /// **Rule B1**: whatever call fails, there is a whole file or none, and no temporary one.
    @Test(arguments: [SystemCall.open, .write, .link, .chmod, .fstat, .mmap], [0, 1, 2])
    func aFailureLeavesNoHalfFile(call: SystemCall, skipping: Int) throws {
        let block = System.withFaults([Fault(call, errno: ENOSPC, skipping: skipping, times: 1)]) {
            try? openOrCreate(mode: 0o600)
        }
        if block != nil { #expect(block?.isIntact == true) }
        #expect(folder.contents.allSatisfy { $0 == nameOfBlock })
        #expect(try openOrCreate(mode: 0o600).isIntact)
    }

    /// **Rule B2**.
    @Test func permissionsAreThoseOfTheDatabase() throws {
        _ = try openOrCreate(mode: 0o600)
        let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        #expect(mode == 0o600)
    }

    /// **Rules L1, L2**: each layout version has a name of its own. So what has this version's name, and another version inside, is no
    /// control block.
    @Test(arguments: [Layout.fileSize, 4096, 100_000])
    func anotherVersionInsideIsReplaced(size: Int) throws {
        #expect(path == database + "-coord\(Layout.version)")
        var bytes = Layout.seal() + [UInt8](repeating: 7, count: size - Layout.seal().count)
        bytes[8] = 99
        try Data(bytes).write(to: URL(fileURLWithPath: path))
        #expect(throws: ControlBlock.Unusable.damaged) { try open() }
        #expect(try openOrCreate().isIntact)
        #expect(try open().isInPlace)
    }

    /// **Rule L1**: the files of other versions, before version 4 without a number, are left alone, and reported.
    @Test func blocksOfOtherVersions() throws {
        func seal(_ version: UInt8) -> [UInt8] {
            var bytes = Layout.seal()
            bytes[8] = version
            return bytes + [UInt8](repeating: 0, count: Layout.fileSize - bytes.count)
        }
        var used = seal(99)
        func putSlot(_ index: Int, _ owner: ProcessIdentity) {
            let words = [
                OwnerWord(pid: owner.pid, incarnation: 7).rawValue, owner.startTime, owner.namespace, 7 << 32 as UInt64,
            ]
            let offset = Layout.headerSize + index * Layout.slotSize
            let bytes = words.flatMap { word in withUnsafeBytes(of: word.littleEndian) { Array($0) } }
            used.replaceSubrange(offset..<offset + 32, with: bytes)
        }
        putSlot(0, try endedProcess())
        putSlot(3, .current)
        var early = ProcessIdentity.current
        early = ProcessIdentity(pid: early.pid, startTime: early.startTime &- 1, namespace: early.namespace)
        putSlot(4, early)
        let files = [
            "db-coord": seal(3), "db-coord99": used, "db-coord7": Array("no control block".utf8),
            "db-coordinates": seal(98), "db2-coord": seal(97), "db-coord98": Array(seal(98).prefix(30)),
        ]
        for (name, bytes) in files { try Data(bytes).write(to: URL(fileURLWithPath: folder.file(name))) }
        let block = try openOrCreate()
        #expect(
            OtherControlBlock.all(besideDatabaseAt: database).map { [$0.path, "\($0.version)", "\($0.pids)"] } == [
                [folder.file("db-coord"), "3", "[]"], [folder.file("db-coord98"), "98", "[]"],
                [folder.file("db-coord99"), "99", "[\(getpid())]"],
            ]
        )
        for (name, bytes) in files {
            #expect(try Data(contentsOf: URL(fileURLWithPath: folder.file(name))) == Data(bytes))
        }
        #expect(block.isIntact && block.isInPlace)
    }

    /// **Rule G2**: whatever numbers are in the seal of another version.
    @Test func garbageInAnotherVersionsSeal() throws {
        var random = SeededGenerator()
        for _ in 0..<200 {
            var bytes = Layout.seal() + random.bytes(.random(in: 0...5000, using: &random))
            bytes[8] = 99
            for offset in 12..<24 where Bool.random(using: &random) {
                bytes[offset] = [0, 1, 127, 255].randomElement(using: &random)!
            }
            try Data(bytes).write(to: URL(fileURLWithPath: folder.file("db-coord99")))
            #expect(OtherControlBlock.all(besideDatabaseAt: database).map(\.version) == [99])
        }
    }

    /// **Rule L2**: what is no control block is replaced.
    @Test(arguments: [0, 1, 11, 4096, Layout.fileSize, 1_000_000])
    func damageIsReplaced(size: Int) throws {
        var generator = SystemRandomNumberGenerator()
        let bytes = (0..<size).map { _ in UInt8.random(in: 0...255, using: &generator) }
        try Data(bytes).write(to: URL(fileURLWithPath: path))
        #expect(throws: ControlBlock.Unusable.damaged) { try open() }
        #expect(try openOrCreate().isIntact)
    }

    /// **Rule L3**: truncation is survived: the pages turn to zeros, and the block says that it is lost.
    @Test func truncationIsNoCrash() throws {
        let block = try openOrCreate()
        let participant = try Participant(in: block, author: "me", traits: .init(role: .readWrite, priority: 1))
        #expect(participant.isSeated)
        #expect(truncate(path, 0) == 0)
        #expect(block.value(of: .grants) == 0)
        #expect(!block.isIntact)
        #expect(!participant.isSeated)
        // The taker of turns neither crashes nor hangs on it.
        let taker = TurnTaker(participant: participant, settings: .testing())
        let deadline = MonotonicClock.now + 2_000_000_000
        _ = taker.acquire(at: MonotonicClock.now, until: deadline, settingUp: false) { true }
        #expect(MonotonicClock.now < deadline)
    }

    /// **Rules G3, L3**: nothing wakes a waiter that sleeps on a file which is truncated, so it looks by itself, however long its patience is.
    @Test func aWaiterOnATruncatedFileLooks() throws {
        let block = try openOrCreate()
        func taker(_ author: String) throws -> TurnTaker {
            let traits = ParticipantTraits(role: .readWrite, priority: 1)
            let participant = try Participant(in: block, author: author, traits: traits)
            return TurnTaker(participant: participant, settings: .testing(patience: .seconds(3600)))
        }
        func acquire(_ taker: TurnTaker, within time: Duration) -> TurnTaker.Outcome {
            let now = MonotonicClock.now
            return taker.acquire(at: now, until: now + time.nanoseconds, settingUp: false) { false }
        }
        let (holder, waiter) = (try taker("holder"), try taker("waiter"))
        #expect(acquire(holder, within: .zero) == .acquired)
        let (path, thread) = (path, SleepingThread.current)
        Thread.detachNewThread {
            #expect(throws: Never.self) {
                try eventually("it is in the queue") { block.hasWaiters }
                try thread.waitUntilItSleeps()
            }
            truncate(path, 0)
        }
        #expect(acquire(waiter, within: .seconds(20)) == .uncoordinated)
    }

    /// **Rule L4**.
    @Test func aReplacedFileIsNoticed() throws {
        let block = try openOrCreate()
        #expect(block.isInPlace)
        try FileManager.default.removeItem(atPath: path)
        #expect(!block.isInPlace)
        let other = try openOrCreate()
        #expect(!block.isInPlace && other.isInPlace)
    }

    /// **Rule G5**: nothing is opened through a symbolic link, nothing is taken for the block, and the link stays.
    @Test func aLinkIsNotFollowed() throws {
        let target = folder.file("database")
        try Data("precious".utf8).write(to: URL(fileURLWithPath: target))
        try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: target)
        #expect(throws: ControlBlock.Unusable.self) { try openOrCreate() }
        #expect(throws: ControlBlock.Unusable.self) { try open(writable: false) }
        #expect(try String(contentsOfFile: target, encoding: .utf8) == "precious")
        #expect(folder.contents == ["database", nameOfBlock])
    }

    /// **Rule L4**: a block that was moved away, with a link to it in its place, is not in place: newcomers do not follow the link.
    @Test func aLinkToTheBlockItself() throws {
        let block = try openOrCreate()
        try FileManager.default.moveItem(atPath: path, toPath: folder.file("moved"))
        try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: folder.file("moved"))
        #expect(!block.isInPlace)
    }

    /// **Rule G5**: a hard link to a file that SQLite locks is not opened, not even for a moment, nor removed: its database may have no
    /// other name any more.
    @Test(arguments: ["", "-shm", "-journal"], ["db", "other"])
    func aHardLinkToADatabaseIsNotOpened(ending: String, name: String) throws {
        let locked = folder.file(name)
        let registration = name == "other" ? LockedFiles(ofDatabaseAt: locked) : nil
        // It is as long as a block, so that only a look shows the difference.
        try Data(count: Layout.fileSize).write(to: URL(fileURLWithPath: locked + ending))
        #expect(link(locked + ending, path) == 0)
        let refusal = ControlBlock.Unusable.locked(LockedFileError(path: path, database: locked))
        System.withFaults([Fault(.open, errno: EIO)]) {
            #expect(throws: refusal) { try open(writable: false) }
            #expect(throws: refusal) { try open() }
            #expect(throws: refusal) { try openOrCreate() }
        }
        #expect(folder.contents.count == 2)
        withExtendedLifetime(registration) {}
    }

    /// **Rule G3**: opening does not wait for the other end of a FIFO.
    @Test(.timeLimit(.minutes(1))) func aFIFOIsNotWaitedFor() throws {
        #expect(mkfifo(path, 0o600) == 0)
        #expect(throws: ControlBlock.Unusable.damaged) { try open(writable: false) }
        #expect(try openOrCreate().isIntact)
    }

    /// **Rule B1**: what a process leaves that dies between writing the block and linking it is removed by the next that creates one. What is
    /// being written stays.
    @Test func whatTheDeadLeftIsRemoved() throws {
        let dead = try endedProcess()
        // As if it ended before it links, and so does not unlink.
        System.withFaults([Fault(.link, errno: EIO), Fault(.unlink, errno: EIO)]) {
            _ = #expect(throws: ControlBlock.Unusable.self) { try openOrCreate() }
        }
        let unfinished = try #require(folder.contents.first)
        #expect(folder.contents.count == 1)
        let writer = try #require(UnfinishedFile.writer(ofFileNamed: unfinished, ControlBlock.unfinishedPrefix))
        #expect(writer == .current)
        let own = "\(writer.pid)-\(writer.startTime)-", others = "\(dead.pid)-\(dead.startTime)-"
        let abandoned = folder.file(unfinished.replacingOccurrences(of: own, with: others))
        try FileManager.default.copyItem(atPath: folder.file(unfinished), toPath: abandoned)
        #expect(try openOrCreate().isIntact)
        #expect(folder.contents == [unfinished, nameOfBlock])
    }

    /// The name of an unfinished file does not limit the name of the database.
    @Test func aLongName() throws {
        // With `-journal`, the longest of its files' endings.
        let name = String(repeating: "x", count: 255 - 8)
        #expect(try ControlBlock.openOrCreate(forDatabaseAt: folder.file(name), access: nil).isInPlace)
    }
}
