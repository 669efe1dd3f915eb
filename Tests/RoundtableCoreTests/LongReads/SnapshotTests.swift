import Foundation
import GRDB
import GRDBSQLite
import RoundtableKernel
import RoundtableUnitSupport
import Synchronization
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDiagnostics

/// What snapshots promise, within one process. The tests of other processes are in `RoundtableProcessTests`.
@Suite struct SnapshotTests {
    let folder: TemporaryFolder
    let url: URL

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("players.sqlite")
    }

    private func open(
        _ author: String = "test",
        _ change: (inout SharedDatabase.Options) -> Void = { _ in }
    ) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        change(&options)
        return try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: author, options: options)
    }

    private func openReadOnly() throws -> SharedDatabase {
        let answer = try SharedDatabase.openReadOnly(at: url, schema: SharedSchema(migrator()), as: "reader")
        guard case .available(let db) = answer else { throw CancellationError() }
        return db
    }

    private func add(_ name: String, to db: SharedDatabase) throws {
        try db.write { db in _ = try Player(name: name).inserted(db) }
    }

    private func participant(_ author: String) throws -> ParticipantStatus {
        let participants = try DatabaseStatus(ofDatabaseAt: url).participants
        return try #require(participants.first { $0.author == author })
    }

    private func count(_ reader: some DatabaseReader) throws -> Int { try reader.read(Player.fetchCount) }

    private func expect(
        _ code: ResultCode,
        _ body: () throws -> Void,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        do {
            try body()
            Issue.record("no error", sourceLocation: sourceLocation)
        } catch {
            #expect((error as? DatabaseError)?.resultCode == code, "\(error)", sourceLocation: sourceLocation)
        }
    }

    // MARK: Moments

    @Test(arguments: [SharedDatabase.Role.readWrite, .readOnly])
    func oneMomentOverManyCalls(role: SharedDatabase.Role) async throws {
        let writer = try open("writer")
        let db = role == .readWrite ? try open("reader") : try openReadOnly()
        try add("A", to: writer)
        let snapshot = try await db.makeSnapshot()
        for count in 2...5 {
            try add("B", to: writer)
            #expect(try await snapshot.read { try Player.fetchCount($0) } == 1)
            #expect(try await snapshot.unsafeRead { try Player.fetchCount($0) } == 1)
            #expect(try await snapshot.read { _ in try snapshot.reentrantRead(Player.fetchCount) } == 1)
            #expect(try self.count(snapshot) == 1)
            #expect(try self.count(db) == count)
        }
        let changes = try await snapshot.advance()
        #expect(!changes.isEmpty)
        #expect(changes.allSatisfy { $0.tableNames == nil || $0.tableNames == ["player"] })
        #expect(changes.last?.sequence == changes.map(\.sequence).max())
        #expect(try count(snapshot) == 5)
        #expect(try await snapshot.advance().isEmpty)
        #expect(try count(snapshot) == 5)
        expect(.SQLITE_READONLY) { try snapshot.read { try $0.execute(sql: "DELETE FROM player") } }
    }

    /// Commits to attached databases alone do not move the commit counter.
    @Test func commitsToAttachedDatabasesAreReported() throws {
        let other = folder.file("other.sqlite").path
        try DatabasePool(path: other).close()
        let db = try open { options in
            options.configuration.prepareDatabase {
                try $0.execute(sql: "ATTACH DATABASE ? AS other", arguments: [other])
            }
        }
        try db.write { try $0.execute(sql: "CREATE TABLE other.attached (id INTEGER)") }
        let snapshot = try db.makeSnapshot()
        try db.write { try $0.execute(sql: "INSERT INTO other.attached VALUES (1)") }
        let changes = try snapshot.advance()
        #expect(!changes.isEmpty && changes.allSatisfy { $0.tableNames?.contains("attached") != false }, "\(changes)")
        #expect(try snapshot.advance().isEmpty)
    }

    /// Two snapshots of one participant are independent, also for code that knows GRDB's protocol only.
    @Test func snapshotsAreIndependentReaders() throws {
        let db = try open()
        let first = try db.makeSnapshot()
        try add("A", to: db)
        let second = try db.makeSnapshot()
        #expect(try count(first) == 0)
        #expect(try count(second) == 1)
        #expect(try AnyDatabaseReader(first).read(Player.fetchCount) == 0)
        let copy = try DatabaseQueue()
        try first.backup(to: copy)
        #expect(try copy.read(Player.fetchCount) == 0)
        #expect(first.configuration.readonly && first.path == db.path)
    }

    @Test func aSnapshotOfAWriteSeesThatWrite() throws {
        let db = try open()
        let snapshot = try db.writeWithoutTransaction { connection in
            try connection.inTransaction {
                _ = try Player(name: "A").inserted(connection)
                return .commit
            }
            return try db.makeSnapshot()
        }
        try add("B", to: db)
        #expect(try snapshot.read(Player.fetchCount) == 1)
    }

    /// A snapshot has the schema of its moment, and then of the next one.
    @Test func schemasBelongToMoments() throws {
        let db = try open()
        let snapshot = try db.makeSnapshot()
        func columns(_ db: Database) throws -> [String] { try db.columns(in: "player").map(\.name) }
        #expect(try snapshot.read(columns).last == "score")
        try db.write { try $0.alter(table: "player") { $0.add(column: "team", .text) } }
        #expect(try snapshot.read(columns).last == "score")
        #expect(try snapshot.advance().map(\.tables).contains(.fullDatabase))
        #expect(try snapshot.read(columns).last == "team")
    }

    /// Threads read and advance at once; each read is of one moment: both halves of each transaction are there.
    @Test func manyThreads() async throws {
        let db = try open()
        let snapshot = try await db.makeSnapshot()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                for _ in 0..<100 {
                    try await db.write { db in
                        _ = try Player(name: "A").inserted(db)
                        _ = try Player(name: "B").inserted(db)
                    }
                }
            }
            for _ in 0..<3 {
                group.addTask {
                    for _ in 0..<100 {
                        try await snapshot.advance()
                        #expect(try await snapshot.read { try Player.fetchCount($0) } % 2 == 0)
                    }
                }
            }
            try await group.waitForAll()
        }
        try await snapshot.advance()
        #expect(try await snapshot.read { try Player.fetchCount($0) } == 200)
    }

    // MARK: Observation

    /// An observation of a snapshot reports one value, whatever the scheduler, as GRDB's snapshots do.
    @Test func observationsReportOneValue() async throws {
        let db = try open()
        try add("A", to: db)
        let snapshot = try await db.makeSnapshot()
        let observation = ValueObservation.tracking(Player.fetchCount)
        var iterator = observation.values(in: snapshot).makeAsyncIterator()
        #expect(try await iterator.next() == 1)
        let values = Mutex<[Int]>([])
        let immediate = observation.start(
            in: snapshot,
            scheduling: AtOnce(),
            onError: { Issue.record($0) },
            onChange: { value in values.withLock { $0.append(value) } }
        )
        #expect(values.withLock { $0 } == [1])
        try add("B", to: db)
        #expect(try await snapshot.read { try Player.fetchCount($0) } == 1)
        try await snapshot.advance()
        #expect(values.withLock { $0 } == [1])
        immediate.cancel()
        try snapshot.close()
        await #expect(throws: DatabaseError.self) { for try await _ in observation.values(in: snapshot) {} }
        let errors = Mutex(0)
        let failing = observation.start(
            in: snapshot,
            scheduling: AtOnce(),
            onError: { _ in errors.withLock { $0 += 1 } },
            onChange: { _ in Issue.record("a value of a closed snapshot") }
        )
        try await eventually("the error is reported") { errors.withLock { $0 } == 1 }
        failing.cancel()
    }

    private struct AtOnce: ValueObservationScheduler {
        func immediateInitialValue() -> Bool { true }
        func schedule(_ action: @escaping @Sendable () -> Void) { action() }
    }

    // MARK: Ends

    @Test func closing() throws {
        let db = try open()
        let (first, second) = (try db.makeSnapshot(), try db.makeSnapshot())
        try first.close()
        try first.close()
        expect(.SQLITE_MISUSE) { _ = try count(first) }
        expect(.SQLITE_MISUSE) { try first.advance() }
        #expect { try count(first) } throws: {
            ($0 as? DatabaseError)?.message
                == "\(db.path): the snapshot made at \(first.callSite) was closed: make another"
        }
        #expect(try count(second) == 0)
        try db.close()
        expect(.SQLITE_MISUSE) { _ = try count(second) }
        expect(.SQLITE_MISUSE) { _ = try db.makeSnapshot() }
    }

    @Test func aSnapshotKeepsItsDatabase() throws {
        let snapshot = try open("keeper").makeSnapshot()
        #expect(try snapshot.read(Player.fetchCount) == 0)
        try add("A", to: snapshot.database)
        #expect(try !snapshot.advance().isEmpty)
        #expect(try participant("keeper").oldestRead != nil)
    }

    /// The shared database stays open, and usable, when a snapshot cannot be closed.
    @Test func cursorsThatStayAlive() throws {
        let db = try open()
        try add("A", to: db)
        try add("B", to: db)
        let snapshot = try db.makeSnapshot()
        var statement: OpaquePointer?
        try snapshot.read { db in
            sqlite3_prepare_v2(db.sqliteConnection, "SELECT * FROM player", -1, &statement, nil)
            #expect(sqlite3_step(statement) == SQLITE_ROW)
        }
        try add("C", to: db)
        expect(.SQLITE_BUSY) { try snapshot.advance() }
        #expect(try snapshot.read(Player.fetchCount) == 2)
        #expect(throws: DatabaseError.self) { try db.close() }
        #expect(try db.read(Player.fetchCount) == 3)
        try add("D", to: db)
        sqlite3_finalize(statement)
        #expect(try snapshot.advance().isEmpty == false)
        #expect(try snapshot.read(Player.fetchCount) == 4)
        try db.close()
    }

    /// A statement that is not stepped does not prevent the transaction from ending, but it prevents the connection from closing: the snapshot has
    /// lost nothing then, and continues to read its moment.
    @Test func aSnapshotThatCannotCloseContinues() throws {
        let db = try open("keeper")
        try add("A", to: db)
        let snapshot = try db.makeSnapshot()
        var statement: OpaquePointer?
        try snapshot.read { db in
            #expect(sqlite3_prepare_v2(db.sqliteConnection, "SELECT * FROM player", -1, &statement, nil) == SQLITE_OK)
        }
        try add("B", to: db)
        #expect { try snapshot.close() } throws: {
            let error = $0 as? DatabaseError
            return error?.resultCode == .SQLITE_BUSY && error?.message?.contains("release it") == true
        }
        #expect(try count(snapshot) == 1, "it is at its moment")
        #expect(try participant("keeper").oldestRead != nil, "and is shown")
        #expect(throws: DatabaseError.self) { try db.close() }
        #expect(try count(snapshot) == 1)
        #expect(try snapshot.advance().count == 1)
        #expect(try count(snapshot) == 2)
        sqlite3_finalize(statement)
        try snapshot.close()
        expect(.SQLITE_MISUSE) { _ = try count(snapshot) }
        #expect(try participant("keeper").oldestRead == nil)
        try db.close()
    }

    /// An `advance()` that comes while the snapshot is being closed neither keeps it open nor takes its moment.
    @Test func closingBesideAdvance() throws {
        let db = try open()
        for _ in 0..<500 {
            let snapshot = try db.makeSnapshot()
            let hasBegun = DispatchSemaphore(value: 0)
            let hasEnded = DispatchSemaphore(value: 0)
            Thread.detachNewThread {
                hasBegun.signal()
                for _ in 0..<5 where (try? snapshot.advance()) == nil { break }
                hasEnded.signal()
            }
            hasBegun.wait()
            #expect(throws: Never.self) { try snapshot.close() }
            hasEnded.wait()
        }
        try db.close()
    }

    /// A closure that ends the transaction gets no mixture of moments, and the next moment reports all changes.
    @Test func aTransactionThatAClosureEnds() throws {
        let db = try open()
        let snapshot = try db.makeSnapshot()
        try snapshot.read { try $0.execute(sql: "COMMIT") }
        try add("A", to: db)
        expect(.SQLITE_ABORT) { _ = try count(snapshot) }
        #expect(try !snapshot.advance().isEmpty)
        #expect(try snapshot.read(Player.fetchCount) == 1)
    }

    @Test func interruptedReadsLeaveTheMoment() throws {
        let db = try open()
        let snapshot = try db.makeSnapshot()
        try add("A", to: db)
        let hasBegun = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            hasBegun.wait()
            snapshot.interrupt()
        }
        // An interruption before the statement runs would not end it.
        let begun = DatabaseFunction("begun", argumentCount: 0) { _ in
            hasBegun.signal()
            return 1
        }
        let endless = "WITH RECURSIVE n(i) AS (SELECT begun() UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n"
        let error = #expect(throws: DatabaseError.self) {
            try snapshot.read { db in
                db.add(function: begun)
                _ = try Int.fetchOne(db, sql: endless)
            }
        }
        #expect(error?.resultCode == .SQLITE_INTERRUPT, "\(error as Any)")
        #expect(try snapshot.read(Player.fetchCount) == 0)
    }

    /// In rollback-journal mode a snapshot would keep all writers out.
    @Test func onlyInWALMode() throws {
        try DatabaseQueue(path: url.path).write { try $0.execute(sql: "CREATE TABLE t (x)") }
        let answer = try SharedDatabase.openReadOnly(at: url, schema: .unmanaged, as: "reader")
        guard case .available(let db) = answer else { return #expect(Bool(false)) }
        #expect(throws: DatabaseError.self) { try db.makeSnapshot() }
        #expect(!FileManager.default.fileExists(atPath: url.path + "-shm"))
    }

    // MARK: Status

    /// **Rules O2, O3.** The oldest snapshot is shown, with what it holds back; nothing is shown once all have ended.
    @Test func statusShowsTheOldest() throws {
        let (db, other) = (try open("app"), try open("other"))
        #expect(try participant("app").oldestRead == nil)
        let first = try db.makeSnapshot()
        #expect(try participant("app").oldestRead?.heldFrames == 0)
        let before = try #require(DatabaseStatus(ofDatabaseAt: url).wal).committedFrames
        for _ in 0..<10 { try add("A", to: other) }
        let held = try #require(DatabaseStatus(ofDatabaseAt: url).wal).committedFrames - before
        #expect(held >= 10)
        let second = try db.makeSnapshot()
        let read = try #require(try participant("app").oldestRead)
        #expect(read.heldFrames == held && !read.isPastLimit && read.age > .zero)
        #expect(try participant("other").oldestRead == nil)
        try first.advance()
        #expect(try participant("app").oldestRead?.heldFrames == 0)
        try first.close()
        #expect(try participant("app").oldestRead != nil)
        try second.close()
        #expect(try participant("app").oldestRead == nil)
    }

    /// A read can outlive the run of the WAL that it began in.
    @Test func statusAfterTheWALRestarted() throws {
        let (db, other) = (try open("app"), try open("other"))
        for _ in 0..<10 { try add("A", to: other) }
        try other.writeWithoutTransaction { _ = try $0.checkpoint(.passive) }
        let before = try #require(DatabaseStatus(ofDatabaseAt: url).wal)
        #expect(before.committedFrames >= 10 && before.backfilledFrames == before.committedFrames)
        let snapshot = try db.makeSnapshot()
        for _ in 0..<3 { try add("A", to: other) }
        let frames = try #require(DatabaseStatus(ofDatabaseAt: url).wal).committedFrames
        #expect((1..<10).contains(frames), "the WAL did not restart")
        #expect(try participant("app").oldestRead?.heldFrames == frames)
        // SQLite reports the same numbers.
        let result = try other.writeWithoutTransaction { try $0.checkpoint(.passive) }
        #expect(result.checkpointedFrameCount == 0)
        try snapshot.close()
    }

    /// Each moment is reported once, whichever check finds it.
    @Test func longReadsAreReported() async throws {
        let reported = Mutex<[LongRead]>([])
        let db = try open("app") { options in
            options.longReadLimit = LongRead.Limit(age: .seconds(1000), frames: 5)
            options.follow { (read: LongRead) in reported.withLock { $0.append(read) } }
        }
        let (snapshot, line) = (try await db.makeSnapshot(), #line)
        for _ in 0..<20 { try add("A", to: db) }
        try await eventually("it is reported") { reported.withLock { $0.count } > 0 }
        let read = try #require(reported.withLock { $0.first })
        #expect(read.heldFrames > 5 && read.snapshot === snapshot)
        #expect(snapshot.callSite.hasSuffix("SnapshotTests.swift:\(line)"))
        for _ in 0..<20 { try add("A", to: db) }
        _ = try await snapshot.read { try Player.fetchCount($0) }
        try await snapshot.advance()
        for _ in 0..<20 { try add("A", to: db) }
        try await eventually("it is reported again") { reported.withLock { $0.count } > 1 }
        #expect(reported.withLock { $0.count } == 2)
        reported.withLock { $0 = [] }
    }

    @Test func limits() {
        let limit = LongRead.Limit(age: .seconds(2), frames: 10)
        #expect(!limit.isPassed(age: .seconds(1000), heldFrames: 0))
        #expect(!limit.isPassed(age: .milliseconds(1900), heldFrames: 10))
        #expect(limit.isPassed(age: .milliseconds(2100), heldFrames: 1))
        #expect(limit.isPassed(age: .zero, heldFrames: 11))
    }
}
