import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableGate
@testable import RoundtableHistory

/// A participant closes all its connections, and opens them again.
@Suite struct ParkingTests {
    let folder: TemporaryFolder
    let url: URL

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("players.sqlite")
    }

    func open(
        _ author: String = "a",
        _ change: (inout SharedDatabase.Options) -> Void = { _ in }
    ) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        change(&options)
        return try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: author, options: options)
    }

    func openReadOnly() throws -> SharedDatabase {
        let answer = try SharedDatabase.openReadOnly(at: url, schema: SharedSchema(migrator()), as: "reader")
        guard case .available(let db) = answer else { throw CancellationError() }
        return db
    }

    func add(_ name: String, to db: SharedDatabase) throws {
        try db.write { db in _ = try Player(name: name).inserted(db) }
    }

    func names(_ db: SharedDatabase) throws -> [String] {
        try db.read { try String.fetchAll($0, sql: "SELECT name FROM player ORDER BY id") }
    }

    func soon(_ milliseconds: UInt64 = 60_000) -> Nanoseconds { MonotonicClock.now + milliseconds * 1_000_000 }

    func park(_ db: SharedDatabase, milliseconds: UInt64 = 60_000) async -> [HeldConnection] {
        let deadline = soon(milliseconds)
        return await onThread { db.park(until: deadline) }
    }

    /// What this process has open of the database: descriptors of it, its WAL and its wal-index.
    var openFiles: [String] {
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

    func expectSuspended(
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
        let queue = DispatchQueue(label: "values")
        let cancellable = ValueObservation.tracking(Player.fetchCount)
            .start(in: db, scheduling: .async(onQueue: queue), onError: { _ in }) { _ in values.change { $0 += 1 } }
        try await eventually("a value") { values.value == 1 }
        _ = try await (db.read(Player.fetchCount), db.read(Player.fetchCount))
        #expect(try !openFiles.isEmpty)

        #expect(await park(db) == [])
        #expect(try openFiles == [])
        // This lists the files again, and none was opened again.
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
        // The database is closed by its release.
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
        try await a.history.enable(for: "player")
        try add("A", to: a)
        let seen = Shared<[DatabaseChange]>([])
        let observing = try b.observeChanges(on: DispatchQueue(label: "log")) { change in
            seen.change { $0.append(change) }
        }
        #expect(await park(a) == [])
        a.unpark()
        try await a.write { db in
            try db.execute(sql: "INSERT INTO player (name, score) VALUES ('B', twice(21))")
            #expect(try Int.fetchOne(db, sql: "SELECT score FROM player WHERE name = 'B'") == 42)
        }
        // The commit is recorded, published under its name, and stamped.
        try add("C", to: a)
        try await eventually("notified") { seen.value.count == 2 }
        #expect(seen.value.map(\.author) == ["a", "a"] && seen.value[1].tableNames == ["player"], "\(seen.value)")
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
        #expect(await park(db, milliseconds: 500) == [HeldConnection(use: .writing)])
        db.unpark()
        try add("B", to: db)
        #expect(await park(db, milliseconds: 500) == [HeldConnection(use: .writing)])
        statement = nil
        #expect(statement == nil)
        #expect(await park(db) == [])
        #expect(try openFiles == [])
        db.unpark()
        #expect(try names(db) == ["A", "B"])
    }

    // MARK: Closing, and at once

    @Test func closingWhileParked() async throws {
        let db = try open()
        try add("A", to: db)
        #expect(await park(db) == [])
        let waiting = Task { try await db.read(Player.fetchCount) }
        try await eventually("waits") { db.readers.counts.waiting > 0 }
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
                            // The suspension interrupted the read.
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
