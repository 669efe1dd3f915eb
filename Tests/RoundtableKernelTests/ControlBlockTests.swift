import Foundation
import Testing

@testable import RoundtableKernel

@Suite struct ControlBlockTests {
    let folder: TemporaryFolder
    let path: String

    init() throws {
        folder = try TemporaryFolder()
        path = folder.file("db-coord")
    }

    /// **Rule B1**: of many who create it at once, all get the same file, and no temporary file stays.
    @Test func manyCreateOne() async throws {
        let identities = try await withThrowingTaskGroup(of: FileIdentity.self) { group in
            for _ in 0..<16 {
                group.addTask { [path] in try ControlBlock.openOrCreate(at: path, access: nil).file.identity }
            }
            return try await group.reduce(into: Set()) { $0.insert($1) }
        }
        #expect(identities.count == 1)
        #expect(folder.contents == ["db-coord"])
    }

    /// **Rule B1**: whatever call fails, there is a whole file or none, and no temporary one.
    @Test(arguments: [SystemCall.open, .write, .link, .chmod, .fstat, .mmap], [0, 1, 2])
    func aFailureLeavesNoHalfFile(call: SystemCall, skipping: Int) throws {
        let block = System.withFaults([Fault(call, errno: ENOSPC, skipping: skipping, times: 1)]) {
            try? ControlBlock.openOrCreate(at: path, access: .init(mode: 0o600))
        }
        if block != nil { #expect(block?.isIntact == true) }
        #expect(folder.contents.allSatisfy { $0 == "db-coord" })
        #expect(try ControlBlock.openOrCreate(at: path, access: .init(mode: 0o600)).isIntact)
    }

    /// **Rule B2**.
    @Test func permissionsAreThoseOfTheDatabase() throws {
        _ = try ControlBlock.openOrCreate(at: path, access: .init(mode: 0o600))
        let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        #expect(mode == 0o600)
    }

    /// **Rule L1**: another version's file is left alone, whatever its size.
    @Test(arguments: [Layout.fileSize, 4096, 100_000])
    func anotherVersionIsLeftAlone(size: Int) throws {
        var bytes = Layout.seal() + [UInt8](repeating: 7, count: size - Layout.seal().count)
        bytes[8] = 99
        try Data(bytes).write(to: URL(fileURLWithPath: path))
        #expect(throws: ControlBlock.Unusable.otherVersion(99)) {
            try ControlBlock.openOrCreate(at: path, access: nil)
        }
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == Data(bytes))
    }

    /// **Rule L2**: what is no control block is replaced.
    @Test(arguments: [0, 1, 11, 4096, Layout.fileSize, 1_000_000])
    func damageIsReplaced(size: Int) throws {
        var generator = SystemRandomNumberGenerator()
        let bytes = (0..<size).map { _ in UInt8.random(in: 0...255, using: &generator) }
        try Data(bytes).write(to: URL(fileURLWithPath: path))
        #expect(throws: ControlBlock.Unusable.damaged) { try ControlBlock.open(at: path, writable: true) }
        #expect(try ControlBlock.openOrCreate(at: path, access: nil).isIntact)
    }

    /// **Rule L3**: truncation is survived: the pages turn to zeros, and the block says that it is lost.
    @Test func truncationIsNoCrash() throws {
        let block = try ControlBlock.openOrCreate(at: path, access: nil)
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

    /// **Rule L4**.
    @Test func aReplacedFileIsNoticed() throws {
        let block = try ControlBlock.openOrCreate(at: path, access: nil)
        #expect(block.isInPlace)
        try FileManager.default.removeItem(atPath: path)
        #expect(!block.isInPlace)
        let other = try ControlBlock.openOrCreate(at: path, access: nil)
        #expect(!block.isInPlace && other.isInPlace)
    }

    /// **Rule G5**, the part that a symbolic link could break: nothing is opened through one.
    @Test func aLinkIsNotFollowed() throws {
        let target = folder.file("database")
        try Data("precious".utf8).write(to: URL(fileURLWithPath: target))
        try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: target)
        #expect(throws: ControlBlock.Unusable.self) { try ControlBlock.openOrCreate(at: path, access: nil) }
        #expect(try String(contentsOfFile: target, encoding: .utf8) == "precious")
    }

    /// **Rule G3**: opening does not wait for the other end of a FIFO.
    @Test(.timeLimit(.minutes(1))) func aFIFOIsNotWaitedFor() throws {
        #expect(mkfifo(path, 0o600) == 0)
        _ = try? ControlBlock.openOrCreate(at: path, access: nil)
        _ = try? ControlBlock.open(at: path, writable: false)
    }
}
