import Foundation
import RoundtableTrials
import Testing

@testable import RoundtableKernel

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// **Rule L4**: a participant that does not take turns follows the control block. Its files are those of a database without SQLite.
@Suite struct SeatTests {
    let folder: TemporaryFolder
    let path: String

    init() throws {
        folder = try TemporaryFolder()
        path = folder.file("db")
    }

    private var blockPath: String { ControlBlock.path(forDatabaseAt: path) }

    private func seat(_ author: String, _ role: ParticipantTraits.Role = .readOnly) -> Seat {
        Seat(databasePath: path, author: author, role: role, settings: .testing(), access: nil)
    }

    /// The authors of the participants of the block that is in place; nil if there is none.
    private var seated: [String]? {
        let block = try? ControlBlock.open(forDatabaseAt: path, writable: false)
        return block?.participants().map(\.author)
    }

    private func takeTurn(_ seat: Seat) -> TurnTaker.Outcome {
        let now = MonotonicClock.now
        return seat.takeTurn(at: now, until: now + 1_000_000_000, callSite: nil, isWriteLockFree: { true })
    }

    /// Nothing is created for a reader, and its place is kept, until a writer has made another block.
    @Test(arguments: [ParticipantTraits.Role.readOnly, .readWrite])
    func aReaderFollowsToTheNextBlock(role: ParticipantTraits.Role) throws {
        let writer = seat("founder", .readWrite)
        let reader = seat("reader", role)
        let first = try #require(reader.participant)
        let changes = reader.changes
        unlink(blockPath)
        reader.followBlock()
        #expect(folder.contents == [] && reader.participant === first && reader.changes == changes)
        #expect(reader.unusable == nil)

        let newcomer = seat("newcomer", .readWrite)
        #expect(seated == ["newcomer"])
        reader.followBlock()
        #expect(seated == ["newcomer", "reader"])
        #expect(reader.participant !== first && reader.changes != changes && !first.isSeated)
        #expect(first.block.participants().map(\.author) == ["founder"])
        let second = reader.participant
        reader.followBlock()
        #expect(reader.participant === second, "it is in place")

        reader.leave()
        reader.followBlock()
        #expect(seated == ["newcomer"] && reader.participant == nil, "it does not come back after it has left")
        withExtendedLifetime((writer, newcomer)) {}
    }

    /// The block is deleted while the participant holds the turn: it keeps the place until the turn is released.
    @Test func aTurnIsNotLeft() throws {
        let writer = seat("writer", .readWrite)
        #expect(takeTurn(writer) == .acquired)
        let first = writer.participant
        unlink(blockPath)
        let newcomer = seat("newcomer", .readWrite)
        writer.followBlock()
        #expect(writer.participant === first && seated == ["newcomer"])
        writer.releaseTurn()
        writer.followBlock()
        #expect(seated == ["newcomer", "writer"])
        #expect(takeTurn(writer) == .acquired)
        withExtendedLifetime(newcomer) {}
    }

    /// **Rule P6**: a slot that is lost is replaced by another one of the same block.
    @Test func aLostSlotIsReplaced() throws {
        let writer = seat("writer", .readWrite)
        let reader = seat("reader")
        let first = try #require(reader.participant)
        #expect(first.slot.swapOwner(from: first.ownerWord, to: 0))
        #expect(seated == ["writer"] && reader.mayHaveMoved(at: MonotonicClock.now))
        reader.followBlock()
        #expect(seated == ["writer", "reader"])
        withExtendedLifetime(writer) {}
    }

    /// **Rule F6**: the next slot shows that the participant is suspended.
    @Test func theStateIsKept() throws {
        let reader = seat("reader")
        let writer = seat("writer", .readWrite)
        reader.show(isSuspended: true)
        reader.followBlock()
        #expect(reader.participant?.slot.traits.state == .suspended)
        reader.show(isSuspended: false)
        #expect(reader.participant?.slot.traits.state == .present)
        withExtendedLifetime(writer) {}
    }

    /// A participant without a place, such as one that may not write the block, gets one when it can, and says meanwhile why it has none.
    @Test(arguments: [EACCES, EROFS, EMFILE])
    func aReaderWithoutAPlace(errno: Int32) throws {
        let reader = seat("reader")
        #expect(reader.unusable == .absent)
        let writer = seat("writer", .readWrite)
        System.withFaults([Fault(.open, errno: errno)]) { reader.followBlock() }
        guard case .system(let error) = reader.unusable else {
            Issue.record("\(String(describing: reader.unusable))")
            return
        }
        #expect(error.errno == errno && seated == ["writer"])
        reader.followBlock()
        #expect(seated == ["writer", "reader"] && reader.unusable == nil)
        withExtendedLifetime(writer) {}
    }

    /// A block without a free slot is no better place than the one that is gone.
    @Test func aFullBlock() throws {
        let founder = seat("founder", .readWrite)
        let reader = seat("reader")
        let first = reader.participant
        unlink(blockPath)
        let block = try ControlBlock.openOrCreate(forDatabaseAt: path, access: nil)
        let others = try (0..<Layout.slotCount).map {
            try Participant(in: block, author: "\($0)", traits: .init(role: .readWrite, priority: 1))
        }
        reader.followBlock()
        #expect(reader.participant === first && reader.unusable == nil)
        others[7].leave()
        reader.followBlock()
        #expect(reader.participant?.slot.index == 7)
        withExtendedLifetime(founder) {}
    }

    /// What is no control block is left alone.
    @Test func garbageIsNotReplaced() throws {
        let founder = seat("founder", .readWrite)
        let reader = seat("reader")
        let first = reader.participant
        unlink(blockPath)
        let garbage = Data(repeating: 7, count: Layout.fileSize)
        try garbage.write(to: URL(fileURLWithPath: blockPath))
        reader.followBlock()
        #expect(reader.participant === first)
        #expect(try Data(contentsOf: URL(fileURLWithPath: blockPath)) == garbage)
        withExtendedLifetime(founder) {}
    }

    /// The file is inspected every 250 ms, whatever clock the times are of.
    @Test func theFileIsInspectedNowAndThen() throws {
        let writer = seat("writer", .readWrite)
        let interval: Nanoseconds = 250_000_000
        var now = MonotonicClock.now
        #expect(!writer.mayHaveMoved(at: now))
        unlink(blockPath)
        #expect(!writer.mayHaveMoved(at: now - 1))
        #expect(!writer.mayHaveMoved(at: now + interval - 1))
        now += interval
        #expect(writer.mayHaveMoved(at: now))
        #expect(!writer.mayHaveMoved(at: now + 1))
        #expect(writer.mayHaveMoved(at: now + interval))
    }
}
