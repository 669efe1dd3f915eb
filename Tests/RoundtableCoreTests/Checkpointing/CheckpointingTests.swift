import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Synchronization
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableFiles
@testable import RoundtableGate

/// These tests check rules K within one process.
@Suite struct CheckpointingTests {
    let folder: TemporaryFolder
    let url: URL

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("players.sqlite")
    }

    private func open(
        _ author: String = "a",
        threshold: Int = 50,
        _ change: (inout SharedDatabase.Options) -> Void = { _ in }
    ) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        options.checkpointing = .automatic(threshold: threshold)
        change(&options)
        return try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: author, options: options)
    }

    /// Each row is one commit, of two or three frames.
    private func add(_ count: Int, to db: SharedDatabase) throws {
        for _ in 0..<count { try db.write { db in _ = try Player(name: "A").inserted(db) } }
    }

    private func frames(_ db: SharedDatabase) throws -> WalIndex.Frames {
        try #require(db.writer.queue.inDatabase { WalIndex($0)?.frames })
    }

    private var sizeOfWAL: Int {
        get throws { Int(try #require(try System.status(ofFileAt: url.path + "-wal")).st_size) }
    }

    private func count(_ counter: ControlBlock.Counter, _ db: SharedDatabase) throws -> Int {
        Int(try #require(db.seat.participant).block.value(of: counter))
    }

    /// Whether the work in the background has ended.
    private func isQuiet(_ db: SharedDatabase) -> Bool { db.writer.checkpointer?.isIdle == true }

    /// **K12**: a failure is taken back by a checkpoint that copies something, though readers hold the rest, and by the last participant that closes.
    @Test func aFailureIsTakenBack() async throws {
        let db = try open(threshold: 1000)
        let block = try #require(db.seat.participant).block
        func fail() { block.setCheckpointFailure(.init(time: MonotonicClock.now, code: 13, owner: nil)) }
        try add(5, to: db)
        let snapshot = try await db.makeSnapshot()
        try add(5, to: db)
        fail()
        #expect(try db.walHealth().failure?.code == 13)
        let checkpoint = try await db.checkpoint(.passive)
        #expect(!checkpoint.isComplete)
        #expect(try db.walHealth().failure == nil)
        fail()
        try snapshot.close()
        try db.close()
        #expect(block.checkpointFailure == nil)
    }

    /// **K12**: a failure is not taken back by a step that cannot copy anything because of readers, such as the steps of `doctor`.
    @Test func aFailureStaysWhileNothingIsCopied() async throws {
        let db = try open(threshold: 1000)
        let block = try #require(db.seat.participant).block
        try add(5, to: db)
        let snapshot = try await db.makeSnapshot()
        #expect(try await db.checkpoint(.passive).isComplete)
        try add(5, to: db)
        block.setCheckpointFailure(.init(time: MonotonicClock.now, code: 13, owner: nil))
        #expect(try await !db.checkpoint(.passive).isComplete)
        #expect(try db.walHealth().failure?.code == 13)
        try snapshot.close()
        #expect(try await db.checkpoint(.passive).isComplete)
        #expect(try db.walHealth().failure == nil)
        try db.close()
    }

    // MARK: By itself

    /// **K2, K4**: no commit makes the checkpoint, and no stranger makes it.
    @Test func theWALIsCopiedInTheBackground() async throws {
        let db = try open()
        let before = try count(.checkpoints, db)
        try add(30, to: db)
        try await eventually("a checkpoint is made") { try count(.checkpoints, db) > before }
        try await eventually("it ends") { isQuiet(db) }
        #expect(try frames(db).uncopied < 50)
        #expect(try count(.checkpointsByWriters, db) == 0)
        // Otherwise the other participants would leave it to a participant that does nothing, for the time of its lease.
        let block = try #require(db.seat.participant).block
        try await eventually("the election is released") { block.checkpointer == nil }
    }

    /// **K5, K6**: the WAL restarts again and again, and is never much longer than it should be.
    @Test func theWALDoesNotGrow() async throws {
        let db = try open(threshold: 100)
        var longest = 0
        var restarts = 0
        var last = 0
        for _ in 0..<3000 {
            try add(1, to: db)
            let committed = try frames(db).committed
            if committed < last { restarts += 1 }
            last = committed
            longest = max(longest, committed)
        }
        #expect(longest <= 400)
        // SQLite restarts a WAL that is copied completely, without a step of the checkpointer. So restarts are counted where they show.
        #expect(restarts > 5)
        #expect(try await db.read { try Player.fetchCount($0) } == 3000)
    }

    /// **K2**: the frames that a dead process has left are copied, too.
    @Test func openingLooksAtTheWAL() async throws {
        let first = try open { $0.checkpointing = .manual }
        try add(60, to: first)
        let second = try open("b")
        try add(1, to: second)
        try await eventually("the other one copies it") { try frames(second).uncopied < 50 }
        #expect(try frames(first).backfilled > 50)
    }

    /// **K7**: while a process reads an old moment, attempts become rare; when the read ends, the WAL restarts though no process writes.
    @Test func aLongReadHoldsItUp() async throws {
        let db = try open()
        let snapshot = try await db.makeSnapshot()
        try add(200, to: db)
        try await eventually("it is held up") { try count(.checkpointsHeldUp, db) > 2 }
        let restarts = try count(.walRestarts, db)
        #expect(try frames(db).uncopied > 100)
        // During a pause, any other participant may become the checkpointer (rule K7).
        let block = try #require(db.seat.participant).block
        try await eventually("the election is released for a pause") { block.checkpointer == nil }
        try snapshot.close()
        try await eventually("it continues by itself") { try count(.walRestarts, db) > restarts }
        #expect(try frames(db).uncopied == 0)
    }

    /// A file that has grown is made short again, and not only written from its beginning.
    @Test func aLongFileIsTruncated() async throws {
        let db = try open()
        let snapshot = try await db.makeSnapshot()
        try add(500, to: db)
        #expect(try sizeOfWAL > 200 * 4120)
        try snapshot.close()
        try await eventually("it is short") { try sizeOfWAL <= 200 * 4120 }
        try await eventually("it ends") { isQuiet(db) }
        try add(1, to: db)
        #expect(try await db.read { try Player.fetchCount($0) } == 501)
    }

    /// **K6**: without a connection to checkpoint on, the writer does it on its own.
    @Test func noConnectionIsToBeHad() async throws {
        let isRefusing = Shared(false)
        let db = try open { options in
            options.configuration.prepareDatabase { _ in
                if isRefusing.value { throw DatabaseError(resultCode: .SQLITE_CANTOPEN) }
            }
        }
        isRefusing.change { $0 = true }
        for _ in 0..<20 { try add(10, to: db) }
        #expect(try count(.checkpoints, db) == 0)
        #expect(try count(.checkpointsByWriters, db) > 0)
        #expect(try frames(db).committed <= 200)
        isRefusing.change { $0 = false }
        try add(60, to: db)
        try await eventually("it is opened later") { try count(.checkpoints, db) > 0 }
    }

    // MARK: Policies

    @Test func manual() async throws {
        let db = try open { $0.checkpointing = .manual }
        try add(100, to: db)
        #expect(try frames(db).backfilled == 0)
        let passive = try await db.checkpoint()
        #expect(passive.isComplete && passive.frames > 200)
        try add(1, to: db)
        #expect(try await db.checkpoint(.truncate) == SharedDatabase.CheckpointResult(frames: 0, backfilledFrames: 0))
        #expect(try sizeOfWAL == 0)
        try add(1, to: db)
        try db.close()
        #expect(try sizeOfWAL == 0, "the last participant that closes empties the WAL")
    }

    /// **K11**: without a control block, nobody is known to be left.
    @Test func closingWithoutAControlBlock() throws {
        try open().close()
        let block = ControlBlock.path(forDatabaseAt: url.path)
        try FileManager.default.removeItem(atPath: block)
        try FileManager.default.createDirectory(atPath: block, withIntermediateDirectories: true)
        let db = try open { $0.checkpointing = .manual }
        #expect(db.seat.participant == nil)
        try add(1, to: db)
        try db.close()
        #expect(try sizeOfWAL == 0)
    }

    @Test func external() throws {
        let db = try open { $0.checkpointing = .external }
        try add(200, to: db)
        #expect(try frames(db).backfilled == 0)
        try db.close()
        #expect(try sizeOfWAL > 200 * 4120)
    }

    @Test func aReadOnlyParticipantDoesNot() async throws {
        let db = try open()
        let answer = try await SharedDatabase.openReadOnly(at: url, schema: SharedSchema(migrator()), as: "reader")
        guard case .available(let reader) = answer else { throw CancellationError() }
        let error = #expect(throws: DatabaseError.self) { try reader.checkpoint() }
        #expect(error?.resultCode == .SQLITE_READONLY)
        #expect(error?.message?.contains("read-only") == true)
        try db.close()
        try reader.close()
    }

    /// A checkpoint in vain is reported in the result, and is no error.
    @Test func aCheckpointInVainIsReported() throws {
        let db = try open { $0.checkpointing = .manual }
        let snapshot = try db.makeSnapshot()
        try add(10, to: db)
        for mode in [Database.CheckpointMode.passive, .full, .restart, .truncate] {
            let result = try db.checkpoint(mode, waitingForReaders: .milliseconds(1))
            #expect(!result.isComplete && result.frames > 10)
        }
        try snapshot.close()
        #expect(try db.checkpoint(.restart).isComplete)
    }

    /// **K5**: a checkpoint waits for readers of the WAL, and for readers of the database file alone because all was copied.
    @Test(arguments: [false, true]) func readersAreWaitedFor(ofDatabaseFile: Bool) async throws {
        let db = try open { $0.checkpointing = .manual }
        try add(10, to: db)
        if ofDatabaseFile { try await db.checkpoint(.truncate) }
        let (isReading, mayLook) = (Shared(false), DispatchSemaphore(value: 0))
        // The read stays until the checkpoint has the write lock, which it keeps while it waits.
        async let sawItWait = onThread {
            try? db.read { db in
                isReading.change { $0 = true }
                mayLook.wait()
                return waitUntil("the checkpoint has the write lock", within: .seconds(20)) {
                    WalIndex(db)?.isWriteLockFree != true
                }
            }
        }
        try await eventually("it reads") { isReading.value }
        try add(10, to: db)
        mayLook.signal()
        let result = try await db.checkpoint(.restart, waitingForReaders: .seconds(60))
        #expect(result.isComplete && result.frames > 0)
        #expect(await sawItWait == true)
    }

    /// **K5**: a very long file is cut in pieces, and only the part of the run before is cut.
    @Test func aFileIsCutInPieces() throws {
        let db = try open { $0.checkpointing = .manual }
        let limits = try #require(CheckpointLimits(.automatic(threshold: 16)))
        let link = try #require(db.writer.checkpointer).link
        func cut() throws -> Bool { try link.use(until: .max) { $0.cutFile(limits) } }
        func size(ofFrames frames: Int) -> Int { 32 + frames * 4120 }
        try db.write { db in
            // Apple's SQLite has another default: the write that restarts the WAL cuts it then.
            try db.execute(sql: "PRAGMA journal_size_limit = -1")
            try db.execute(sql: "CREATE TABLE blob (a)")
            for _ in 0..<700 { try db.execute(sql: "INSERT INTO blob VALUES (randomblob(4000))") }
        }
        let longest = try sizeOfWAL
        #expect(longest > size(ofFrames: limits.longest + limits.piece))
        // A process that recovers it would find a part of it, older than the database file.
        #expect(try db.checkpoint(.restart).isComplete && !cut())
        try add(1, to: db)
        #expect(try frames(db).committed < limits.longest)
        let sum = try db.read { try Int.fetchOne($0, sql: "SELECT count(*) + total(length(a)) FROM blob") }
        try db.write { _ in
            let isCut = try cut()
            #expect(!isCut)
        }
        #expect(try cut())
        #expect(try sizeOfWAL == longest - limits.piece * 4120)
        #expect(try cut())
        #expect(try sizeOfWAL == size(ofFrames: limits.longest))
        #expect(try !cut())
        try add(1, to: db)
        #expect(try db.read { try Int.fetchOne($0, sql: "SELECT count(*) + total(length(a)) FROM blob") } == sum)
        #expect(try db.read { try String.fetchOne($0, sql: "PRAGMA integrity_check") } == "ok")
        #expect(try db.read { try Player.fetchCount($0) } == 2)
    }

    /// **K5**: the file is also cut in the background, once no process holds the WAL back any more; and without a writer, too.
    @Test(arguments: [true, false]) func aLongFileBecomesShort(isBeingWritten: Bool) async throws {
        let db = try open(threshold: 16)
        let snapshot = try db.makeSnapshotNow()
        try await db.write { db in
            try db.execute(sql: "CREATE TABLE blob (a)")
            for _ in 0..<1200 { try db.execute(sql: "INSERT INTO blob VALUES (randomblob(4000))") }
        }
        #expect(try sizeOfWAL > 1200 * 4120)
        try snapshot.close()
        try add(1, to: db)
        try await eventually("the file is short") {
            if isBeingWritten { try add(1, to: db) }
            return try sizeOfWAL <= 32 + 64 * 4120
        }
    }

    /// A program that takes no turns is in the way. The error reports it, whether or not there was something to copy.
    @Test func aStrangerWrites() throws {
        let db = try open { $0.checkpointing = .manual }
        try add(10, to: db)
        try db.checkpoint()
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let stranger = try DatabaseQueue(path: url.path, configuration: configuration)
        try stranger.inDatabase { try $0.beginTransaction(.immediate) }
        for mode in [Database.CheckpointMode.restart, .truncate] {
            let error = #expect(throws: DatabaseError.self) { try db.checkpoint(mode) }
            #expect(error?.resultCode == .SQLITE_BUSY)
            #expect(error?.message?.contains("holds the write lock") == true, "\(error?.message ?? "")")
            // It is not taken for another program.
            #expect(error?.message?.contains("another connection of this process (pid \(getpid()))") == true)
        }
        #expect(try db.checkpoint(.passive).isComplete)
        try stranger.inDatabase { try $0.rollback() }
        #expect(try db.checkpoint(.truncate).frames == 0)
    }

    /// An attached database has no participants, and SQLite's automatic checkpoint is switched off on the connection.
    @Test func attachedDatabases() throws {
        let db = try open()
        let other = folder.file("other.sqlite").path
        let queue = try DatabaseQueue(path: other)
        try queue.inDatabase { db in
            try db.execute(sql: "PRAGMA journal_mode = WAL; CREATE TABLE t (a)")
        }
        try queue.close()
        try db.writeWithoutTransaction { db in
            try db.execute(sql: "ATTACH ? AS other", arguments: [other])
            for _ in 0..<3000 { try db.execute(sql: "INSERT INTO other.t VALUES (randomblob(100))") }
        }
        let size = try #require(try System.status(ofFileAt: other + "-wal")).st_size
        #expect(size < 2000 * 4120)
        try db.close()
    }

    /// **W7**: SQLite's own lock of a statement that is being read from is not released in its stead.
    @Test func aCursorThatIsOpenKeepsItsLock() throws {
        let db = try open { $0.checkpointing = .manual }
        try add(10, to: db)
        try db.writeWithoutTransaction { db in
            let cursor = try Row.fetchCursor(db, sql: "SELECT * FROM player")
            _ = try cursor.next()
            guard case .refused = CheckpointStep.passive(db) else {
                Issue.record("it was not refused")
                return
            }
        }
    }

    // MARK: With the rest of the library

    /// **K2**: the checkpointer releases the election; a checkpointer that does not release it is skipped after its lease.
    @Test func oneAtATime() async throws {
        let (a, b) = (try open("a"), try open("b"))
        let (first, second) = (try #require(a.seat.participant), try #require(b.seat.participant))
        let now = MonotonicClock.now
        #expect(first.takeCheckpointing(at: now))
        #expect(first.takeCheckpointing(at: now + 1), "renewed")
        #expect(!second.takeCheckpointing(at: now + 2))
        let before = try count(.checkpoints, b)
        try add(30, to: b)
        #expect(try count(.checkpoints, b) == before, "another participant makes checkpoints")
        #expect(second.takeCheckpointing(at: now + 2 + Participant.checkpointLease), "frozen, say")
        #expect(!first.takeCheckpointing(at: now + 3 + Participant.checkpointLease))
        second.giveCheckpointingUp()
        first.giveCheckpointingUp()
        try add(1, to: a)
        try await eventually("then it is made") { try count(.checkpoints, a) > before }
    }

    /// **K10**: no checkpoint is begun while the gate is closed, and it is made later.
    @Test func suspended() async throws {
        let db = try open { $0.process = ProcessSuspension() }
        try add(10, to: db)
        let visit = try #require(db.gate.enter(.checkpoint, at: nil, isRunning: true))
        let answer = Task { await onThread { db.suspend(deadline: .now + .seconds(60)) } }
        try await eventually("the gate closes") { db.gate.isClosed }
        let waiting = Task { try await db.checkpoint() }
        let error = await onThread { #expect(throws: DatabaseError.self) { try db.checkpoint() } }
        #expect(error?.isSuspension == true)
        db.gate.leave(visit)
        #expect(await answer.value.outcome == .released)
        db.resume()
        #expect(try await waiting.value.isComplete, "the asynchronous form has waited")
    }

    /// **K10**: a participant that parks has no connection left, and opens it again later.
    @Test func parked() async throws {
        let db = try open()
        try add(60, to: db)
        try await eventually("a checkpoint is made") { try count(.checkpoints, db) > 0 }
        let deadline = MonotonicClock.now + 10_000_000_000
        #expect(await onThread { db.park(until: deadline) } == [])
        #expect(db.writer.checkpointer?.link.isOpen == false)
        db.unpark()
        let before = try count(.checkpoints, db)
        try add(60, to: db)
        try await eventually("another is made") { try count(.checkpoints, db) > before }
    }

    /// Closing does not wait for the work in the background, and that work does not keep the database open.
    @Test func closingInTheMiddle() async throws {
        for _ in 0..<20 {
            let db = try open(threshold: 16)
            let writing = Task.detached { try? self.add(200, to: db) }
            try add(40, to: db)
            try await onThread { Result { try db.close() } }.get()
            await writing.value
        }
        let db = try open()
        #expect(try await db.read { try String.fetchAll($0, sql: "PRAGMA integrity_check") } == ["ok"])
    }
}
