import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore

/// Another program checkpoints instead of the participants (rule K13 of `docs/PROTOCOL.md`).
@Suite struct ExternalCheckpointTests {
    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func open(_ author: String) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        options.checkpointing = .automatic(threshold: 50)
        return try SharedDatabase.open(
            at: folder.file("players.sqlite"),
            schema: SharedSchema(migrator()),
            as: author,
            options: options
        )
    }

    private func supervisor() throws -> SharedDatabase {
        let answer = try SharedDatabase.openReadOnly(
            at: folder.file("players.sqlite"),
            schema: SharedSchema(migrator()),
            as: "supervisor"
        )
        guard case .available(let database) = answer else { throw TestError("\(answer)") }
        return database
    }

    private struct TestError: Error { init(_: String) {} }

    /// Each row is one commit, of two or three frames.
    private func add(_ count: Int, to db: SharedDatabase) throws {
        for _ in 0..<count { try db.write { db in _ = try Player(name: "A").inserted(db) } }
    }

    /// The number of all checkpoints so far. The frames in the WAL do not show it, because a checkpoint may have left an empty WAL.
    private func checkpoints(_ db: SharedDatabase) throws -> Int {
        try #require(try db.walHealth().counters).checkpoints
    }

    @Test func noParticipantCheckpointsWhileTheLeaseRuns() async throws {
        let writer = try open("writer")
        let supervisor = try supervisor()
        supervisor.leaveCheckpointsToOthers(true)
        let before = try checkpoints(writer)
        // This is far more than a writer copies in its turn (rule K6).
        try add(200, to: writer)
        #expect(try #require(writer.writer.checkpointer).isIdle)
        #expect(try checkpoints(writer) == before)
        #expect(try writer.walHealth().committedFrames > 200)
        supervisor.leaveCheckpointsToOthers(false)
        try add(1, to: writer)
        try await eventually("the participants checkpoint again") { try checkpoints(writer) != before }
    }

    @Test func theWALIsLeftAloneAtClosing() throws {
        let writer = try open("writer")
        let supervisor = try supervisor()
        try add(5, to: writer)
        supervisor.leaveCheckpointsToOthers(true)
        let block = try #require(supervisor.seat.participant).block
        try supervisor.close()
        let status = try #require(try System.status(ofFileAt: folder.file("players.sqlite").path + "-wal"))
        try writer.close()
        let after = try #require(try System.status(ofFileAt: folder.file("players.sqlite").path + "-wal"))
        #expect(after.st_size == status.st_size && after.st_size > 0)
        // The next participant finds no lease, and empties the WAL.
        block.leaveCheckpointsToOthers(until: 0)
        try open("next").close()
        #expect(try System.status(ofFileAt: folder.file("players.sqlite").path + "-wal")?.st_size == 0)
    }

    /// A supervisor that dies leaves a lease that ends by itself. What no supervisor can have written is garbage (rule G2).
    @Test func aLeaseEndsByItself() throws {
        let db = try open("a")
        let block = try #require(db.seat.participant).block
        db.leaveCheckpointsToOthers(true)
        let now = MonotonicClock.now
        #expect(block.leavesCheckpointsToOthers(at: now))
        #expect(block.leavesCheckpointsToOthers(at: now + 4_000_000_000))
        #expect(!block.leavesCheckpointsToOthers(at: now + 5_000_000_000))
        for garbage in [now + 11_000_000_000, .max, now, 1] {
            block.leaveCheckpointsToOthers(until: garbage)
            #expect(!block.leavesCheckpointsToOthers(at: now), "\(garbage)")
        }
    }
}
