import Foundation
import GRDB
import RoundtableKernel
import Testing

@testable import Roundtable

/// A participant gives up all its connections, and has them again.
@Suite struct ParkingTests {
    let folder: TemporaryFolder
    let url: URL

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("players.sqlite")
    }

    private func open(
        _ author: String = "a",
        _ change: (inout SharedDatabase.Options) -> Void = { _ in }
    ) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        change(&options)
        return try SharedDatabase.open(at: url, schema: Schema(migrator()), as: author, options: options)
    }

    private func openReadOnly() throws -> SharedDatabase {
        let answer = try SharedDatabase.openReadOnly(at: url, schema: Schema(migrator()), as: "reader")
        guard case .available(let db) = answer else { throw CancellationError() }
        return db
    }

    private func add(_ name: String, to db: SharedDatabase) throws {
        try db.write { db in _ = try Player(name: name).inserted(db) }
    }

    private func names(_ db: SharedDatabase) throws -> [String] {
        try db.read { try String.fetchAll($0, sql: "SELECT name FROM player ORDER BY id") }
    }

    private func soon(_ milliseconds: UInt64 = 60_000) -> Nanoseconds { MonotonicClock.now + milliseconds * 1_000_000 }

    private func park(_ db: SharedDatabase, milliseconds: UInt64 = 60_000) async -> [HeldConnection] {
        let deadline = soon(milliseconds)
        return await onThread { db.park(until: deadline) }
    }

    /// What this process has open of the database: descriptors of it, its WAL and its wal-index.
    private var openFiles: [String] {
        get throws {
            let path = url.resolvingSymlinksInPath().path
            return try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").compactMap { name in
                // The descriptor of this very listing is gone.
                guard let target = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(name)")
                else { return nil }
                return [path, path + "-wal", path + "-shm"].contains(target) ? target : nil
            }
        }
    }

    private func expectSuspended(
        sourceLocation: SourceLocation = #_sourceLocation,
        _ body: () throws -> Void
    ) {
        do {
            try body()
            Issue.record("no error", sourceLocation: sourceLocation)
        } catch {
            let error = error as? DatabaseError
            #expect(error?.isSuspension == true, "\(String(describing: error))", sourceLocation: sourceLocation)
        }
    }

    // MARK: Connections

    @Test func nothingIsLeftOpen() async throws {
        let db = try open()
        try add("A", to: db)
        let snapshot = try await db.makeSnapshot()
        let values = Shared(0)
        let cancellable = ValueObservation.tracking(Player.fetchCount)
            .start(in: db, scheduling: .async(onQueue: .global()), onError: { _ in }) { _ in values.change { $0 += 1 } }
        try await eventually("a value") { values.value == 1 }
        _ = try await (db.read(Player.fetchCount), db.read(Player.fetchCount))
        #expect(try !openFiles.isEmpty)

        #expect(await park(db) == [])
        #expect(try openFiles == [])
        // Again, and nothing has come back.
        #expect(await park(db) == [])
        expectSuspended { _ = try db.read(Player.fetchCount) }
        #expect(try openFiles == [])

        db.unpark()
        db.unpark()
        #expect(try names(db) == ["A"])
        try add("B", to: db)
        #expect(try names(db) == ["A", "B"])
        cancellable.cancel()
        withExtendedLifetime(snapshot) {}
    }

    @Test func aReadOnlyParticipant() async throws {
        let db = try open()
        try add("A", to: db)
        try db.close()
        let reader = try openReadOnly()
        #expect(try names(reader) == ["A"])
        #expect(await park(reader) == [])
        #expect(try openFiles == [])
        reader.unpark()
        #expect(try names(reader) == ["A"])
        #expect(throws: DatabaseError.self) { try add("B", to: reader) }
    }

    /// SQLite would checkpoint under an exclusive lock on the file.
    @Test func onlyAnExplicitCloseCheckpoints() async throws {
        func size() throws -> Int { Int(try #require(try System.status(ofFileAt: url.path)).st_size) }
        do {
            let db = try open()
            try add("A", to: db)
            let before = try size()
            #expect(await park(db) == [])
            #expect(try size() == before)
            db.unpark()
            try add("B", to: db)
        }
        // Closed by letting go of it.
        let before = try size()
        try await eventually("it is closed") { try openFiles == [] }
        let db = try open()
        #expect(try size() == before)
        try add("C", to: db)
        try db.close()
        #expect(try size() > before)
    }

    @Test func theWriterIsAsBefore() async throws {
        let a = try open("a") { options in
            options.configuration.prepareDatabase { db in
                db.add(
                    function: DatabaseFunction("twice", argumentCount: 1) {
                        ($0[0].storage.value as? Int64).map { 2 * $0 }
                    }
                )
            }
        }
        let b = try open("b")
        try await a.enableHistory(of: "player")
        try add("A", to: a)
        let told = Shared<[Change]>([])
        let observing = try b.observeChanges(on: DispatchQueue(label: "log")) { change in
            told.change { $0.append(change) }
        }
        #expect(await park(a) == [])
        a.unpark()
        try await a.write { db in
            try db.execute(sql: "INSERT INTO player (name, score) VALUES ('B', twice(21))")
            #expect(try Int.fetchOne(db, sql: "SELECT score FROM player WHERE name = 'B'") == 42)
        }
        // Recorded, published under its name, and stamped.
        try add("C", to: a)
        try await eventually("told") { told.value.count == 2 }
        #expect(told.value.map(\.author) == ["a", "a"] && told.value[1].tableNames == ["player"], "\(told.value)")
        let authors = try await b.read {
            try String.fetchAll($0, sql: "SELECT author FROM roundtable_history WHERE author IS NOT NULL")
        }
        #expect(Set(authors) == ["a"] && authors.count >= 3, "\(authors)")
        #expect(try await b.read { try String.fetchOne($0, sql: "PRAGMA journal_mode") } == "wal")
        observing.cancel()
    }

    @Test func openingFailsAndIsTriedAgain() async throws {
        let db = try open()
        try add("A", to: db)
        #expect(await park(db) == [])
        let aside = folder.file("aside.sqlite")
        try FileManager.default.moveItem(at: url, to: aside)
        db.unpark()
        #expect(throws: DatabaseError.self) { try add("B", to: db) }
        #expect(throws: DatabaseError.self) { _ = try names(db) }
        await #expect(throws: DatabaseError.self) { try await db.write { try $0.execute(sql: "DELETE FROM player") } }
        #expect(throws: DatabaseError.self) {
            try db.writeWithoutTransaction { try $0.execute(sql: "DELETE FROM player") }
        }
        // Nothing was created in its place.
        #expect(!FileManager.default.fileExists(atPath: url.path))
        try FileManager.default.moveItem(at: aside, to: url)
        try add("B", to: db)
        #expect(try names(db) == ["A", "B"])
    }

    @Test func aStatementThatOutlivesItsAccess() async throws {
        let db = try open()
        try add("A", to: db)
        var statement: Statement? = try db.write { try $0.makeStatement(sql: "DELETE FROM player WHERE id = -1") }
        #expect(await park(db, milliseconds: 500) == [HeldConnection(use: .writing, isByStatement: true)])
        db.unpark()
        try add("B", to: db)
        #expect(await park(db, milliseconds: 500) == [HeldConnection(use: .writing, isByStatement: true)])
        statement = nil
        #expect(statement == nil)
        #expect(await park(db) == [])
        #expect(try openFiles == [])
        db.unpark()
        #expect(try names(db) == ["A", "B"])
    }

    // MARK: Reads

    @Test func readsThatComeMeanwhile() async throws {
        let db = try open()
        try add("A", to: db)
        #expect(await park(db) == [])
        expectSuspended { _ = try db.read(Player.fetchCount) }
        expectSuspended { _ = try db.unsafeRead(Player.fetchCount) }
        expectSuspended { try db.barrierWriteWithoutTransaction { _ in } }
        let count = Task { try await db.read(Player.fetchCount) }
        let cancelled = Task { try await db.read(Player.fetchCount) }
        let later = Shared<Int?>(nil)
        db.asyncRead { result in
            let count = try? result.get().makeStatement(sql: "SELECT count(*) FROM player")
            let value = count.flatMap { try? Int.fetchOne($0) }
            later.change { $0 = value }
        }
        cancelled.cancel()
        await #expect(throws: CancellationError.self) { try await cancelled.value }
        #expect(later.value == nil)
        db.unpark()
        #expect(try await count.value == 1)
        try await eventually("the read that was scheduled") { later.value == 1 }
    }

    /// More reads than connections: those that wait in a blocked thread fail, the others go on waiting.
    @Test func readsThatWaitForOthers() async throws {
        let db = try open { $0.maximumReaderCount = 1 }
        try add("A", to: db)
        let isReading = DispatchSemaphore(value: 0)
        let mayEnd = DispatchSemaphore(value: 0)
        let first = Task.detached {
            try await db.read { db in
                isReading.signal()
                mayEnd.wait()
                return try Player.fetchCount(db)
            }
        }
        await wait(isReading)
        let blocked = Shared<(any Error)?>(nil)
        let hasFailed = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            do { _ = try db.read(Player.fetchCount) } catch { blocked.change { $0 = error } }
            hasFailed.signal()
        }
        let waiting = Task.detached { try await db.read(Player.fetchCount) }
        let parked = Task.detached { await park(db) }
        await wait(hasFailed)
        #expect((blocked.value as? DatabaseError)?.isSuspension == true, "\(String(describing: blocked.value))")
        mayEnd.signal()
        #expect(try await first.value == 1)
        #expect(await parked.value == [])
        #expect(try openFiles == [])
        db.unpark()
        #expect(try await waiting.value == 1)
    }

    private func wait(_ semaphore: DispatchSemaphore) async {
        await onThread { semaphore.wait() }
    }

    private static let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"

    @Test func aLongReadIsInterrupted() async throws {
        let db = try open()
        let isReading = DispatchSemaphore(value: 0)
        let read = Task.detached {
            try await db.read { db in
                isReading.signal()
                // The first interruption ends only the first.
                _ = try? Int.fetchOne(db, sql: Self.endless)
                return try Int.fetchOne(db, sql: Self.endless)
            }
        }
        await wait(isReading)
        let began = ContinuousClock.now
        #expect(await park(db, milliseconds: 1000) == [])
        #expect(ContinuousClock.now - began < .seconds(10))
        #expect(try openFiles == [])
        await #expect { try await read.value } throws: { ($0 as? DatabaseError)?.resultCode == .SQLITE_INTERRUPT }
        db.unpark()
    }

    @Test func aReadThatComputesIsTold() async throws {
        let db = try open()
        let isReading = DispatchSemaphore(value: 0)
        let mayEnd = DispatchSemaphore(value: 0)
        let read = Task.detached {
            try await db.read { db in
                isReading.signal()
                mayEnd.wait()
                return try Player.fetchCount(db)
            }
        }
        await wait(isReading)
        #expect(await park(db, milliseconds: 500) == [HeldConnection(use: .reading)])
        #expect(try !openFiles.isEmpty)
        mayEnd.signal()
        #expect(try await read.value == 0)
        // By itself, without anybody who waits.
        try await eventually("closed") { try openFiles.isEmpty }
        db.unpark()
        #expect(try await db.read(Player.fetchCount) == 0)
    }

    /// What runs when the database is resumed goes on with its connection.
    @Test func resumedBeforeAReadHasEnded() async throws {
        let db = try open { $0.maximumReaderCount = 1 }
        let isReading = DispatchSemaphore(value: 0)
        let mayEnd = DispatchSemaphore(value: 0)
        let read = Task.detached {
            try await db.read { db in
                isReading.signal()
                mayEnd.wait()
                return try Player.fetchCount(db)
            }
        }
        await wait(isReading)
        let parked = Task.detached { await park(db) }
        try await eventually("parking") { db.parking.isParking }
        let began = ContinuousClock.now
        db.unpark()
        #expect(await !parked.value.isEmpty)
        #expect(ContinuousClock.now - began < .seconds(10))
        mayEnd.signal()
        #expect(try await read.value == 0)
        #expect(try await db.read(Player.fetchCount) == 0)
        try add("A", to: db)
    }

    // MARK: Snapshots

    @Test func aSnapshotLosesItsMoment() async throws {
        let a = try open("a")
        let b = try open("b")
        try add("A", to: a)
        let snapshot = try await a.makeSnapshot()
        #expect(await park(a) == [])
        #expect { try snapshot.read(Player.fetchCount) } throws: { "\($0)".contains("suspended") }
        expectSuspended { try snapshot.advance() }
        expectSuspended { _ = try a.makeSnapshot() }
        let made = Task { try await a.makeSnapshot() }
        let advanced = Task { try await snapshot.advance() }
        try add("B", to: b)
        try await b.write { try $0.execute(sql: "CREATE TABLE team (id INTEGER)") }
        a.unpark()
        let changes = try await advanced.value
        #expect(changes.count == 2 && changes.allSatisfy { $0.author == "b" && $0.detail == .commit }, "\(changes)")
        #expect(changes.first?.tableNames == ["player"])
        #expect(try await snapshot.read(Player.fetchCount) == 2)
        #expect(try await made.value.read(Player.fetchCount) == 2)
        #expect(try await snapshot.advance() == [])
    }

    /// Nobody else has the database open, so the wal-index is made anew, and the commit counter with it.
    @Test func aSnapshotThatMissedNothing() async throws {
        let db = try open()
        for index in 0..<5 { try add("\(index)", to: db) }
        let snapshot = try await db.makeSnapshot()
        #expect(await park(db) == [])
        #expect(try openFiles == [])
        db.unpark()
        #expect(try await snapshot.advance() == [])
        #expect(try await snapshot.read(Player.fetchCount) == 5)
        try add("5", to: db)
        #expect(try await snapshot.advance().map(\.tableNames) == [["player"]])
    }

    @Test func aSnapshotThatMissedAStranger() async throws {
        let db = try open()
        for index in 0..<3 { try add("\(index)", to: db) }
        let counter = try await db.read { WalIndex($0)?.header?.commitCounter }
        let snapshot = try await db.makeSnapshot()
        #expect(await park(db) == [])
        let stranger = try DatabaseQueue(path: url.path)
        // As often as the counter was, which begins anew.
        for _ in 0..<(counter ?? 0) {
            try await stranger.write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('S')") }
        }
        db.unpark()
        let changes = try await snapshot.advance()
        #expect(changes.contains { $0.tables == .fullDatabase }, "\(changes), counter \(counter ?? 0)")
        try stranger.close()
    }

    @Test func closingAParkedSnapshot() async throws {
        let db = try open()
        let snapshot = try await db.makeSnapshot()
        let other = try await db.makeSnapshot()
        #expect(await park(db) == [])
        try snapshot.close()
        db.unpark()
        await #expect { try await snapshot.advance() } throws: { ($0 as? DatabaseError)?.resultCode == .SQLITE_MISUSE }
        await #expect { try await snapshot.read { _ in } } throws: {
            ($0 as? DatabaseError)?.resultCode == .SQLITE_MISUSE
        }
        #expect(await park(db) == [])
        try db.close()
        await #expect { try await other.advance() } throws: { ($0 as? DatabaseError)?.resultCode == .SQLITE_MISUSE }
        #expect(try openFiles == [])
    }

    // MARK: Closing, and at once

    @Test func closingWhileParked() async throws {
        let db = try open()
        try add("A", to: db)
        #expect(await park(db) == [])
        let waiting = Task { try await db.read(Player.fetchCount) }
        try await eventually("waits") { db.readers.isAwaited }
        try db.close()
        await #expect { try await waiting.value } throws: { ($0 as? DatabaseError)?.resultCode == .SQLITE_MISUSE }
        db.unpark()
        #expect { try add("B", to: db) } throws: { ($0 as? DatabaseError)?.resultCode == .SQLITE_MISUSE }
        #expect(await park(db) == [])
        #expect(try openFiles == [])
    }

    @Test(arguments: [UInt64.random(in: 0..<1_000_000)])
    func everythingAtOnce(seed: UInt64) async throws {
        let db = try open("a") { $0.suspensionPolicy = .everything }
        let other = try open("b")
        var random = LinearGenerator(seed)
        let rounds = 60
        let values = Shared<[Int]>([])
        let errors = Shared<[any Error]>([])
        let queue = DispatchQueue(label: "values")
        let observation = ValueObservation.tracking(Player.fetchCount)
            .start(in: db, scheduling: .async(onQueue: queue)) { error in
                errors.change { $0.append(error) }
            } onChange: { value in
                values.change { $0.append(value) }
            }
        let isOver = Shared(false)
        let committed = Shared(0)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<2 {
                group.addTask {
                    while !isOver.value {
                        do {
                            _ = try await db.read(Player.fetchCount)
                        } catch let error as DatabaseError where error.isSuspension {
                            // Interrupted.
                        }
                        await Task.yield()
                    }
                }
            }
            group.addTask {
                while !isOver.value {
                    do {
                        try self.add("A", to: db)
                        committed.change { $0 += 1 }
                    } catch let error as DatabaseError where error.isSuspension {
                        await Task.yield()
                    }
                }
            }
            group.addTask {
                while !isOver.value {
                    for try await _ in ValueObservation.tracking(Player.fetchCount).values(in: db) { break }
                }
            }
            group.addTask {
                while !isOver.value {
                    let snapshot = try await db.makeSnapshot()
                    _ = try? await snapshot.read(Player.fetchCount)
                    _ = try await snapshot.advance()
                }
            }
            for _ in 0..<rounds {
                let parks = (0..<Int.random(in: 1...2, using: &random)).map { _ in
                    let time = Duration.milliseconds(Int.random(in: 1...30, using: &random))
                    return Task.detached { _ = await db.suspend(deadline: .now + time) }
                }
                for park in parks { await park.value }
                if Bool.random(using: &random) {
                    try add("B", to: other)
                    committed.change { $0 += 1 }
                }
                let unparks = (0..<Int.random(in: 1...2, using: &random)).map { _ in Task.detached { db.resume() } }
                for unpark in unparks { await unpark.value }
                if Bool.random(using: &random) { for _ in 0..<5 { await Task.yield() } }
            }
            isOver.change { $0 = true }
            db.resume()
            try await group.waitForAll()
        }
        #expect(errors.value.isEmpty, "seed \(seed): \(errors.value)")
        let total = try await other.read(Player.fetchCount)
        #expect(total == committed.value, "seed \(seed)")
        try await eventually("the last value, seed \(seed)") { values.value.last == total }
        observation.cancel()
        try other.close()
        #expect(await park(db) == [], "seed \(seed)")
        #expect(try openFiles == [], "seed \(seed)")
    }
}

private struct LinearGenerator: RandomNumberGenerator {
    private var state: UInt64
    init(_ seed: UInt64) { state = seed }
    mutating func next() -> UInt64 {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return state ^ (state >> 32)
    }
}
