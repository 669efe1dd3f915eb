import Foundation
import GRDB
import Hummingbird
import Logging
import PersistedValues
import Roundtable
import ServiceLifecycle
import SharedPersist
import Synchronization
import Testing

/// A clock that the test moves.
private final class TestClock: Sendable {
    private let date = Mutex(Date(timeIntervalSince1970: 1_000_000))
    var now: Date { date.withLock { $0 } }
    func advance(by seconds: TimeInterval) { date.withLock { $0 += seconds } }
}

@Suite struct SharedPersistTests {
    private let clock = TestClock()

    /// Runs `body` with the drivers of two participants of one database, as two servers have them.
    private func withTwoServers(_ body: (SharedPersistDriver, SharedPersistDriver, SharedDatabase) async throws -> Void)
        async throws
    {
        let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(at: folder) }
        var migrator = DatabaseMigrator()
        migrator.registerMigration("values", migrate: PersistedValues.createTable)
        let schema = SharedSchema(migrator)
        let url = folder.appending(path: "values.sqlite")
        let databases = try await [
            SharedDatabase.open(at: url, schema: schema, as: "one"),
            SharedDatabase.open(at: url, schema: schema, as: "two"),
        ]
        let drivers = databases.map { database in
            SharedPersistDriver(
                database,
                removingExpiredEvery: .milliseconds(1),
                logger: Logger(label: "test"),
                now: { [clock] in clock.now }
            )
        }
        try await body(drivers[0], drivers[1], databases[0])
        for database in databases { try database.close() }
    }

    @Test func whatOneServerSetsTheOtherHas() async throws {
        try await withTwoServers { one, two, _ in
            #expect(try await two.get(key: "a", as: String.self) == nil)
            try await one.set(key: "a", value: "first", expires: nil)
            #expect(try await two.get(key: "a", as: String.self) == "first")
            try await two.set(key: "a", value: ["second": 2], expires: nil)
            #expect(try await one.get(key: "a", as: [String: Int].self) == ["second": 2])
            #expect(try #require(await one.getWithTTL(key: "a", as: [String: Int].self)).ttl == nil)
            try await one.remove(key: "a")
            #expect(try await two.get(key: "a", as: [String: Int].self) == nil)
        }
    }

    @Test func onlyOneServerCreatesAValue() async throws {
        try await withTwoServers { one, two, _ in
            try await one.create(key: "a", value: 1, expires: .seconds(10))
            await #expect(throws: PersistError.duplicate) { try await two.create(key: "a", value: 2, expires: nil) }
            #expect(try await two.get(key: "a", as: Int.self) == 1)
            clock.advance(by: 10)
            try await two.create(key: "a", value: 3, expires: nil)
            clock.advance(by: 1_000)
            await #expect(throws: PersistError.duplicate) { try await one.create(key: "a", value: 4, expires: nil) }
            #expect(try await one.get(key: "a", as: Int.self) == 3)
        }
    }

    @Test func ofManyTasksOneCreatesTheValue() async throws {
        try await withTwoServers { one, two, _ in
            let created = try await withThrowingTaskGroup(of: Bool.self) { group in
                for index in 0..<40 {
                    group.addTask {
                        do {
                            try await (index % 2 == 0 ? one : two).create(key: "a", value: index, expires: .seconds(1))
                            return true
                        } catch let error as PersistError where error == .duplicate {
                            return false
                        }
                    }
                }
                return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            #expect(created == 1)
        }
    }

    /// As `PersistDriver` says of `set`.
    @Test func aValueKeepsItsExpiry() async throws {
        try await withTwoServers { one, two, _ in
            try await one.set(key: "a", value: 1, expires: .seconds(10))
            clock.advance(by: 4)
            try await two.set(key: "a", value: 2, expires: nil)
            let (value, ttl) = try #require(await one.getWithTTL(key: "a", as: Int.self))
            #expect(value == 2 && ttl == .seconds(6))
            try await two.set(key: "a", value: 3, expires: .seconds(20))
            clock.advance(by: 19)
            #expect(try await one.get(key: "a", as: Int.self) == 3)
            clock.advance(by: 1)
            #expect(try await one.get(key: "a", as: Int.self) == nil)
            // The expiry of a value that has expired is not kept.
            try await one.set(key: "a", value: 4, expires: nil)
            clock.advance(by: 1_000)
            #expect(try await two.get(key: "a", as: Int.self) == 4)
        }
    }

    @Test func aValueOfAnotherTypeIsAnError() async throws {
        try await withTwoServers { one, two, _ in
            try await one.set(key: "a", value: "text", expires: nil)
            await #expect(throws: PersistError.invalidConversion) { try await two.get(key: "a", as: Int.self) }
        }
    }

    @Test func expiredValuesAreRemoved() async throws {
        try await withTwoServers { one, _, database in
            try await database.write { db in
                for index in 0..<2_500 {
                    try db.execute(
                        sql: "INSERT INTO persisted_value VALUES (?, '1', ?)",
                        arguments: [String(index), clock.now.timeIntervalSince1970 + 5]
                    )
                }
            }
            try await one.set(key: "stays", value: 1, expires: .seconds(6))
            try await one.set(key: "stays for ever", value: 1, expires: nil)
            #expect(try await one.removeExpired() == 0)
            clock.advance(by: 5)
            #expect(try await one.removeExpired() == 2_500)
            #expect(try await database.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM persisted_value") } == 2)
        }
    }

    /// The service removes what expires, and ends with the others.
    @Test func theServiceRemovesThemAndEnds() async throws {
        try await withTwoServers { one, two, database in
            try await two.set(key: "a", value: 1, expires: .seconds(1))
            clock.advance(by: 1)
            let group = ServiceGroup(services: [one], logger: Logger(label: "test"))
            async let end: Void = group.run()
            let deadline = ContinuousClock.now + .seconds(30)
            while try await database.read({ try Int.fetchOne($0, sql: "SELECT count(*) FROM persisted_value") }) != 0 {
                try #require(ContinuousClock.now < deadline, "expired values are not removed")
                try await Task.sleep(for: .milliseconds(2))
            }
            await group.triggerGracefulShutdown()
            try await end
        }
    }
}
