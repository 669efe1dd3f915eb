import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableGate

/// What a participant that has written leaves in the WAL, when it closes, is suspended or dies (rules K2, K11a).
@Suite struct LeftFramesTests {
    let folder: TemporaryFolder
    let url: URL

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("players.sqlite")
    }

    private func open(
        _ author: String,
        _ policy: SharedDatabase.CheckpointPolicy = .automatic(threshold: 50),
        _ change: (inout SharedDatabase.Options) -> Void = { _ in }
    ) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        options.checkpointing = policy
        change(&options)
        return try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: author, options: options)
    }

    private func add(_ count: Int, to db: SharedDatabase) throws {
        for _ in 0..<count { try db.write { db in _ = try Player(name: "A").inserted(db) } }
    }

    private func left(_ db: SharedDatabase) throws -> Int {
        try #require(db.writer.queue.inDatabase { WalIndex($0)?.frames }).uncopied
    }

    private var sizeOfWAL: Int {
        get throws { Int(try #require(try System.status(ofFileAt: url.path + "-wal")).st_size) }
    }

    /// Prevents other participants from checkpointing in the background, as a frozen checkpointer does.
    private func elect(_ db: SharedDatabase) throws {
        #expect(try #require(db.seat.participant).takeCheckpointing(at: MonotonicClock.now))
    }

    // MARK: Closing

    /// **K11a**: the lease of a participant that does nothing is not in the way.
    @Test func closingCopiesTheFrames() throws {
        let idle = try open("idle")
        let writer = try open("writer")
        for _ in 0..<60 {
            try elect(idle)
            try add(1, to: writer)
        }
        #expect(try left(idle) >= 50)
        try writer.close()
        #expect(try left(idle) == 0)
        #expect(try #require(idle.seat.participant).block.value(of: .checkpoints) > 0)
    }

    /// **K11a**: a huge transaction does not leave a long file.
    @Test func closingShortensTheFile() throws {
        let idle = try open("idle", .automatic(threshold: 16))
        let writer = try open("writer", .automatic(threshold: 16))
        try elect(idle)
        try addBlobs(to: writer)
        try writer.close()
        #expect(try sizeOfWAL <= 32 + 64 * 4120)
        #expect(try idle.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM blob") } == 1200)
        try add(1, to: idle)
    }

    private func addBlobs(to db: SharedDatabase) throws {
        try db.write { db in
            try db.execute(sql: "CREATE TABLE blob (a)")
            for _ in 0..<1200 { try db.execute(sql: "INSERT INTO blob VALUES (randomblob(4000))") }
        }
    }

    /// **K11a**: a reader of an older snapshot holds the frames back. Closing tries for some time, and no longer.
    @Test func closingBesideAReader() throws {
        let idle = try open("idle")
        try add(1, to: idle)
        let snapshot = try idle.makeSnapshotNow()
        let writer = try open("writer")
        for _ in 0..<60 {
            try elect(idle)
            try add(1, to: writer)
        }
        let duration = try ContinuousClock().measure { try writer.close() }
        #expect(duration >= .nanoseconds(Int(Checkpointer.closingPatience)))
        #expect(duration < .seconds(10))
        #expect(try left(idle) >= 50)
        try snapshot.close()
    }

    /// **K11a**: closing waits for a read that ends soon.
    @Test func closingBesideAShortRead() async throws {
        let idle = try open("idle")
        try add(1, to: idle)
        let writer = try open("writer")
        let snapshot = try await idle.makeSnapshot()
        for _ in 0..<60 {
            try elect(idle)
            try add(1, to: writer)
        }
        let block = try #require(idle.seat.participant).block
        let before = block.value(of: .checkpoints)
        let closing = Task { try await onThread { Result { try writer.close() } }.get() }
        try await eventually("the first attempt is made") { block.value(of: .checkpoints) > before }
        try snapshot.close()
        try await closing.value
        #expect(try left(idle) == 0)
    }

    /// **K1, K10**: other policies, and a closed gate, leave the frames.
    @Test(arguments: [SharedDatabase.CheckpointPolicy.manual, .external]) func policies(
        _ policy: SharedDatabase.CheckpointPolicy
    ) throws {
        let idle = try open("idle")
        let writer = try open("writer", policy)
        try add(60, to: writer)
        try writer.close()
        #expect(try left(idle) >= 50)
    }

    @Test func closingBehindAClosedGate() async throws {
        let idle = try open("idle")
        let writer = try open("writer") { $0.process = ProcessSuspension() }
        for _ in 0..<60 {
            try elect(idle)
            try add(1, to: writer)
        }
        #expect(await onThread { writer.suspend(deadline: .now + .seconds(60)) }.isReleased)
        try writer.close()
        #expect(try left(idle) >= 50)
    }

    // MARK: Other participants

    /// **K2**: opening copies the frames, and no commit is needed.
    @Test func openingCopiesTheFrames() async throws {
        let first = try open("first", .manual)
        try add(60, to: first)
        let second = try open("second")
        try await eventually("the frames are copied") { try left(second) == 0 }
    }

    /// **K2**: resuming copies the frames that were left while the database was suspended.
    @Test func resuming() async throws {
        let suspended = try open("suspended") { $0.process = ProcessSuspension() }
        #expect(await onThread { suspended.suspend(deadline: .now + .seconds(60)) }.isReleased)
        let other = try open("other", .manual)
        try add(60, to: other)
        #expect(try left(other) >= 50)
        suspended.resume()
        try await eventually("the frames are copied") { try left(other) == 0 }
    }

    /// **K2**: a participant that observes copies what other participants leave, also if the checkpointer does nothing.
    @Test(arguments: [false, true]) func observing(besideACheckpointer: Bool) async throws {
        let idle = try open("idle")
        let changes = idle.changes(in: .fullDatabase)
        let task = Task { for try await _ in changes {} }
        defer { task.cancel() }
        try await eventually("it observes") { idle.observatory.frames != nil }
        let other = try open("other", .manual)
        try add(60, to: other)
        // It renews its lease for longer than the first look is delayed.
        let end = MonotonicClock.now + 700_000_000
        while besideACheckpointer, MonotonicClock.now < end {
            try elect(other)
            try await Task.sleep(for: .milliseconds(20))
        }
        try await eventually("the frames are copied") { try left(other) == 0 }
    }

    /// **K5c**: the file is cut after one huge transaction, after which nothing is written.
    @Test func aHugeTransactionOfAnIdleApp() async throws {
        let db = try open("app", .automatic(threshold: 16))
        try addBlobs(to: db)
        try await eventually("the file is short") { try sizeOfWAL <= 32 + 64 * 4120 }
    }
}
