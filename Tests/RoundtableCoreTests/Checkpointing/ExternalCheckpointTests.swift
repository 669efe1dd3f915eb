import Dispatch
import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Synchronization
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

    /// A look at the system's list of locks takes the longer the more processes hold some. But for one after a time without any, no write waits for it:
    /// neither one after which a checkpoint is due, nor one that needs it within its turn (rules K2, K6, K13).
    @Test func noWriteWaitsForALook() throws {
        let db = try open("writer")
        let checkpointer = try #require(db.writer.checkpointer)
        let mark = "writer"
        Thread.current.threadDictionary[mark] = true
        defer { Thread.current.threadDictionary[mark] = nil }
        let looks = Shared((all: 0, byWriter: 0))
        checkpointer.external.isReading.withLock {
            $0 = {
                let isWriter = Thread.current.threadDictionary[mark] != nil
                looks.change { $0 = ($0.all + 1, $0.byWriter + (isWriter ? 1 : 0)) }
                return false
            }
        }
        try add(60, to: db)
        let before = looks.value
        #expect(before.byWriter == 1)
        // Meanwhile the checkpointer cannot look either.
        try checkpointer.link.use(until: .max) { _ in
            let end = MonotonicClock.now + 1_200_000_000
            repeat { try? add(60, to: db) } while MonotonicClock.now < end
            #expect(looks.value.byWriter == before.byWriter)
        }
        looks.wait { $0.all > before.all }
        try db.close()
    }

    /// A program that is found is assumed to run for 5 s. It is looked for once a second, elsewhere where the caller must not wait (rule K13).
    @Test func anotherProgramIsLookedForOnceASecond() throws {
        let external = ExternalCheckpoints(databasePath: folder.file("players.sqlite").path)
        let isThere = Shared(true)
        let looks = Shared(0)
        external.isReading.withLock {
            $0 = {
                looks.change { $0 += 1 }
                return isThere.value
            }
        }
        let second: Nanoseconds = 1_000_000_000
        let now = 1_000 * second
        let queue = DispatchQueue(label: "look")
        // Nothing is known yet, so the caller waits.
        #expect(external.isActive(nil, at: now, lookingOn: queue))
        isThere.change { $0 = false }
        #expect(external.isActive(nil, at: now + second - 1) && looks.value == 1)
        #expect(external.isActive(nil, at: now + 4 * second) && looks.value == 2)
        #expect(external.isActive(nil, at: now + 5 * second - 1) && looks.value == 2)
        #expect(!external.isActive(nil, at: now + 5 * second) && looks.value == 3)
        isThere.change { $0 = true }
        queue.suspend()
        // One look is under way, and only those wait for one who may.
        for _ in 1...3 { #expect(!external.isActive(nil, at: now + 6 * second, lookingOn: queue) && looks.value == 3) }
        #expect(external.isActive(nil, at: now + 6 * second) && looks.value == 4)
        queue.resume()
        queue.sync {}
        #expect(looks.value == 5)
        // What was known five seconds ago says nothing of now.
        isThere.change { $0 = false }
        #expect(!external.isActive(nil, at: now + 1_000_000 * second, lookingOn: queue) && looks.value == 6)
    }
}
