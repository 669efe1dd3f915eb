import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDelivery
@testable import RoundtableFiles
@testable import RoundtableGate

/// What is published before a suspension, and what is not fetched for one (rule V9).
extension SnapshotPublisherTests {
    @Test func attachedDatabases() throws {
        try DatabaseQueue().inDatabase { db in
            try db.execute(sql: "CREATE TEMPORARY TABLE t (x)")
            #expect(!db.hasAttachedDatabases)
            try db.execute(sql: "ATTACH ':memory:' AS other")
            #expect(db.hasAttachedDatabases)
        }
    }

    @Test(arguments: [SuspensionPolicy.writeLocks, .everything])
    func publishedBeforeTheFreeze(policy: SuspensionPolicy) async throws {
        let db = try open("app", policy)
        let other = try openUnsuspended("other")
        let file = file()
        let log = try Log(db, file, every: .seconds(3600))
        try await eventually([], in: file)
        // The interval would keep it for an hour.
        try add("A", to: db)
        let outcome = await db.suspend(deadline: .now + .seconds(20)).outcome
        #expect(outcome == .released)
        #expect(try file.read().value == ["A"])
        #expect(log.infos.value.last == (try file.read().info))
        // Nothing is done while suspended.
        let fetches = log.fetches.value
        try add("B", to: other)
        try add("C", to: other)
        #expect(log.fetches.value == fetches)
        #expect(try file.read().value == ["A"])
        db.resume()
        try await log.publisher.value?.publish()
        #expect(try file.read().value == ["A", "B", "C"])
        #expect(log.errors.value.isEmpty)
    }

    /// What has not changed is not fetched again, neither before the freeze nor afterwards.
    @Test(arguments: [SuspensionPolicy.writeLocks, .everything])
    func nothingIsFetchedForNothing(policy: SuspensionPolicy) async throws {
        let db = try open("app", policy)
        // It prevents the WAL from being restarted while the other participant has no connection.
        let other = try openUnsuspended("other")
        try add("A", to: db)
        let file = file()
        let log = try Log(db, file)
        try await log.publisher.value?.publish()
        try await waitUntil { log.isAtRest }
        let fetches = log.fetches.value
        for _ in 1...3 {
            #expect(await db.suspend(deadline: .now + .seconds(20)).outcome == .released)
            #expect(log.fetches.value == fetches)
            db.resume()
            try await waitUntil { log.isAtRest }
            #expect(log.fetches.value == fetches)
        }
        // A change while it sleeps is one fetch.
        _ = await db.suspend(deadline: .now + .seconds(20))
        try add("B", to: other)
        db.resume()
        try await eventually(["A", "B"], in: file)
        // It is reported after it was published.
        try await waitUntil { (try? file.read().info?.sequence) == log.infos.value.last?.sequence }
    }

    enum Novelty: CaseIterable {
        case ownCommit, othersCommit, strangersCommit, commitDuringTheFetch, removedFile, othersFile, halfAFile
    }

    /// The last state is always published, whatever has changed, and however late: the interval is an hour.
    @Test(arguments: Novelty.allCases)
    func whatIsNewIsPublishedBeforeTheFreeze(novelty: Novelty) async throws {
        let (db, other) = (try open(), try openUnsuspended("other"))
        try add("A", to: db)
        let file = file()
        // A notification would be enough: here, the news is as late as possible.
        db.observatory.pause()
        let isDuring = Shared(novelty == .commitDuringTheFetch)
        let publisher = try db.publish(to: file, atMostEvery: .seconds(3600)) { db in
            let names = try Self.names(db)
            if isDuring.value {
                isDuring.change { $0 = false }
                try other.write { db in _ = try Player(name: "B").inserted(db) }
            }
            return names
        }
        try await eventually(["A"], in: file)
        var expected = ["A", "B"]
        switch novelty {
        case .ownCommit: try add("B", to: db)
        case .othersCommit: try add("B", to: other)
        case .strangersCommit:
            try await DatabaseQueue(path: url.path).write { db in
                try db.execute(sql: "INSERT INTO player (name) VALUES ('B')")
            }
        case .commitDuringTheFetch: break
        case .removedFile:
            try FileManager.default.removeItem(at: file.url)
            expected = ["A"]
        case .othersFile:
            try await self.file(as: "other").write(["X"])
            expected = ["A"]
        case .halfAFile:
            let bytes = try Data(contentsOf: file.url)
            try bytes.dropLast().write(to: file.url)
            expected = ["A"]
        }
        #expect(await db.suspend(deadline: .now + .seconds(20)).outcome == .released)
        #expect(try file.read().value == expected)
        db.resume()
        withExtendedLifetime(publisher) {}
    }

    /// Commits to an attached database move no counter of this one.
    @Test func whatIsNewInAnAttachedDatabase() async throws {
        let aside = folder.file("aside.sqlite").path
        try await DatabaseQueue(path: aside).write { try $0.execute(sql: "CREATE TABLE team (name)") }
        let db = try open { options in
            options.configuration.prepareDatabase { db in
                try db.execute(sql: "ATTACH DATABASE ? AS aside", arguments: [aside])
            }
        }
        try add("A", to: db)
        let file = file()
        db.observatory.pause()
        let publisher = try db.publish(to: file, atMostEvery: .seconds(3600)) { db in
            try Self.names(db) + String.fetchAll(db, sql: "SELECT name FROM aside.team")
        }
        try await eventually(["A"], in: file)
        try await db.write { try $0.execute(sql: "INSERT INTO aside.team VALUES ('T')") }
        _ = await db.suspend(deadline: .now + .seconds(20))
        #expect(try file.read().value == ["A", "T"])
        db.resume()
        withExtendedLifetime(publisher) {}
    }

    /// … least of all those by others, whether they know Roundtable or not, to databases that were attached at any time.
    @Test(arguments: [true, false], [true, false])
    func whatOthersCommitToAnAttachedDatabase(byParticipant: Bool, isAttachedByTheFetch: Bool) async throws {
        let aside = folder.file("aside.sqlite")
        let sql = "INSERT INTO team VALUES ('T')"
        let stranger = try DatabaseQueue(path: aside.path)
        try await stranger.write { try $0.execute(sql: "CREATE TABLE team (name)") }
        let participant =
            try await byParticipant ? SharedDatabase.open(at: aside, schema: .unmanaged, as: "other") : nil
        let attach: @Sendable (Database) throws -> Void = { db in
            let names = try String.fetchAll(db, sql: "SELECT name FROM pragma_database_list")
            if names.contains("aside") { return }
            try db.execute(sql: "ATTACH DATABASE ? AS aside", arguments: [aside.path])
        }
        let db = try open { options in
            if !isAttachedByTheFetch { options.configuration.prepareDatabase(attach) }
        }
        try add("A", to: db)
        let file = file()
        let publisher = try db.publish(to: file, atMostEvery: .seconds(3600)) { db in
            try attach(db)
            return try Self.names(db) + String.fetchAll(db, sql: "SELECT name FROM aside.team")
        }
        try await eventually(["A"], in: file)
        if let participant {
            try await participant.write { try $0.execute(sql: sql) }
        } else {
            try await stranger.write { try $0.execute(sql: sql) }
        }
        _ = await db.suspend(deadline: .now + .seconds(20))
        #expect(try file.read().value == ["A", "T"])
        db.resume()
        withExtendedLifetime((publisher, participant)) {}
    }

    /// … and by itself, when the interval is over.
    @Test(arguments: [SuspensionPolicy.writeLocks, .everything])
    func goesOnAfterwards(policy: SuspensionPolicy) async throws {
        let db = try open("app", policy)
        let other = try openUnsuspended("other")
        let file = file()
        let log = try Log(db, file)
        try await eventually([], in: file)
        for round in 0..<5 {
            _ = await db.suspend(deadline: .now + .seconds(20))
            try add("\(round)", to: other)
            db.resume()
            try await eventually((0...round).map(String.init), in: file)
        }
        // One that is made while it is suspended.
        _ = await db.suspend(deadline: .now + .seconds(20))
        let late = self.file("late")
        let second = try Log(db, late)
        db.resume()
        try await eventually((0..<5).map(String.init), in: late)
        #expect(log.errors.value.isEmpty && second.errors.value.isEmpty)
    }

    /// A fetch that takes longer than the deadline delays no other work, and publishes nothing.
    @Test(arguments: [SuspensionPolicy.writeLocks, .everything])
    func theDeadlineHolds(policy: SuspensionPolicy) async throws {
        let db = try open("app", policy)
        let file = file()
        let isSlow = Shared(false)
        let publisher = try db.publish(to: file, atMostEvery: .seconds(3600)) { db in
            let names = try Self.names(db)
            // What the system interrupts.
            if isSlow.value {
                let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
                _ = try Int.fetchOne(db, sql: endless)
            }
            return names
        }
        try await eventually([], in: file)
        isSlow.change { $0 = true }
        try add("A", to: db)
        let began = ContinuousClock.now
        _ = await db.suspend(deadline: .now + .milliseconds(300))
        #expect(ContinuousClock.now - began < .seconds(5))
        #expect(try file.read().value == [])
        isSlow.change { $0 = false }
        db.interrupt()
        db.resume()
        try await publisher.publish()
        #expect(try file.read().value == ["A"])
    }
}
