import Dispatch
import Foundation
import GRDB
import RoundtableUnitSupport
import Synchronization
import Testing

@testable import Roundtable
@testable import RoundtableCore

/// Value observations, and commits of their own participant.
@Suite struct OwnObservationTests {
    let folder: TemporaryFolder
    let db: SharedDatabase

    init() throws {
        folder = try TemporaryFolder()
        db = try SharedDatabase.open(at: folder.file("players.sqlite"), schema: SharedSchema(migrator()), as: "own")
    }

    private typealias Values = Shared<[Int]>

    private func observe(
        _ values: Values,
        _ errors: Shared<[any Error]> = Shared([]),
        _ fetch: @escaping @Sendable (Database) throws -> Int
    ) -> AnyDatabaseCancellable {
        ValueObservation.tracking(fetch).start(
            in: db,
            scheduling: .async(onQueue: DispatchQueue(label: "values")),
            onError: { error in errors.change { $0.append(error) } },
            onChange: { value in values.change { $0.append(value) } }
        )
    }

    private func insert(_ name: String = "A") throws {
        try db.write { db in _ = try Player(name: name).inserted(db) }
    }

    @Test func eachCommitIsSeen() async throws {
        let values = Values([])
        let observation = observe(values) { try Player.fetchCount($0) }
        try await eventually("the first value") { values.value.last == 0 }
        for count in 1...200 {
            try insert()
            try await eventually("value \(count)") { values.value.last == count }
        }
        withExtendedLifetime(observation) {}
    }

    /// A transaction that its commit hook refuses is not reported. The next one is reported.
    @Test func aRefusedCommitGivesNoValue() async throws {
        final class Veto: TransactionObserver {
            struct Refusal: Error {}
            func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { true }
            func databaseDidChange(with event: DatabaseEvent) {}
            func databaseWillCommit() throws { throw Refusal() }
            func databaseDidCommit(_ db: Database) {}
            func databaseDidRollback(_ db: Database) {}
        }
        let fetches = Values([])
        let values = Values([])
        let observation = observe(values) { db in
            let count = try Player.fetchCount(db)
            fetches.change { $0.append(count) }
            return count
        }
        try await eventually("the first value") { values.value.last == 0 }
        let before = fetches.value.count
        for _ in 1...20 {
            await #expect(throws: Veto.Refusal.self) {
                try await db.write { db in
                    db.add(transactionObserver: Veto(), extent: .nextTransaction)
                    _ = try Player(name: "refused").inserted(db)
                }
            }
        }
        try insert()
        try await eventually("the value after the refused commits") { values.value.last == 1 }
        #expect(values.value == [0, 1])
        #expect(fetches.value.count == before + 1)
        withExtendedLifetime(observation) {}
    }

    /// Observations that are notified together fetch from one state of the database.
    @Test func observationsFetchFromOneState() async throws {
        let (first, second) = (Values([]), Values([]))
        let observations = [first, second].map { values in observe(values) { try Player.fetchCount($0) } }
        try await eventually("the first values") { first.value.last == 0 && second.value.last == 0 }
        // The first observation is held up within its fetch, while other commits are made.
        let isHeld = Shared(false)
        let mayContinue = Shared(false)
        let held = Values([])
        let holding = observe(held) { db in
            let count = try Player.fetchCount(db)
            if count == 1, !isHeld.value {
                isHeld.change { $0 = true }
                mayContinue.wait { $0 }
            }
            return count
        }
        try await eventually("the first value of the held observation") { held.value.last == 0 }
        let last = Values([])
        let later = observe(last) { try Player.fetchCount($0) }
        try await eventually("the first value of the last observation") { last.value.last == 0 }
        try insert()
        try await eventually("the held fetch") { isHeld.value }
        try insert()
        mayContinue.change { $0 = true }
        try await eventually("the last value") { last.value.last == 2 && held.value.last == 2 }
        // The last observation has fetched after the second commit, and from the state before it.
        #expect(last.value == [0, 1, 2])
        withExtendedLifetime((observations, holding, later)) {}
    }

    @Test func aFetchCannotWrite() async throws {
        let (values, errors) = (Values([]), Shared<[any Error]>([]))
        let observation = observe(values, errors) { db in
            try db.execute(sql: "INSERT INTO player (name) VALUES ('fetched')")
            return 1
        }
        try await eventually("the error") { !errors.value.isEmpty }
        #expect((errors.value.first as? DatabaseError)?.resultCode == .SQLITE_READONLY)
        #expect(try await db.read { try Player.fetchCount($0) } == 0)
        withExtendedLifetime(observation) {}
    }

    /// The first fetch of an observation does not lock an attached database, and does not wait for its lock.
    @Test func theFirstFetchLocksNoAttachedDatabase() async throws {
        let path = folder.file("side.sqlite").path
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let side = try DatabaseQueue(path: path, configuration: configuration)
        try await side.write { try $0.execute(sql: "CREATE TABLE note (text)") }
        var options = SharedDatabase.Options()
        options.configuration.prepareDatabase { try $0.execute(sql: "ATTACH ? AS side", arguments: [path]) }
        let db = try await SharedDatabase.open(
            at: folder.file("attaching.sqlite"),
            schema: SharedSchema(migrator()),
            as: "own",
            options: options
        )
        try await side.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
        let values = Values([])
        let observation = ValueObservation.tracking { try Player.fetchCount($0) }.start(
            in: db,
            scheduling: .async(onQueue: DispatchQueue(label: "values")),
            onError: { Issue.record($0) },
            onChange: { value in values.change { $0.append(value) } }
        )
        try await eventually("the first value", within: .seconds(10)) { values.value == [0] }
        try await side.writeWithoutTransaction { try $0.execute(sql: "COMMIT") }
        withExtendedLifetime(observation) {}
    }

    /// SQLite's read-only mode is that of the main database alone.
    @Test func aFetchCannotWriteToOtherDatabases() async throws {
        let side = folder.file("side.sqlite").path
        try await DatabaseQueue(path: side).write { try $0.execute(sql: "CREATE TABLE note (text)") }
        var options = SharedDatabase.Options()
        options.configuration.prepareDatabase { db in
            try db.execute(sql: "ATTACH ? AS side", arguments: [side])
            try db.execute(sql: "CREATE TEMP TABLE draft (text)")
        }
        let db = try await SharedDatabase.open(
            at: folder.file("attaching.sqlite"),
            schema: SharedSchema(migrator()),
            as: "own",
            options: options
        )
        for table in ["side.note", "temp.draft"] {
            let errors = Shared<[any Error]>([])
            let fetches = Shared(0)
            let observation = ValueObservation.tracking { db in
                fetches.change { $0 += 1 }
                // The first fetch is not made in the transaction of a notification.
                if fetches.value > 1 { try db.execute(sql: "INSERT INTO \(table) (text) VALUES ('fetched')") }
                return try Player.fetchCount(db)
            }.start(
                in: db,
                scheduling: .async(onQueue: DispatchQueue(label: "values")),
                onError: { error in errors.change { $0.append(error) } },
                onChange: { _ in }
            )
            try await eventually("the first fetch") { fetches.value == 1 }
            try await db.write { db in _ = try Player(name: "A").inserted(db) }
            try await eventually("the second fetch") { fetches.value == 2 }
            try await eventually("the error for \(table)", within: .seconds(5)) { !errors.value.isEmpty }
            #expect((errors.value.first as? DatabaseError)?.resultCode == .SQLITE_READONLY)
            withExtendedLifetime(observation) {}
        }
    }

    /// Another participant changes the schema just before the first fetch of an observation.
    ///
    ///     other participant          observation connection
    ///                                the fetch of an observation is held
    ///                                the start of another one waits
    ///     renames a column
    ///                                the held fetch ends
    ///                                the first fetch: reads the new schema
    @Test func theFirstFetchKnowsTheSchema() async throws {
        let other = try await SharedDatabase.open(
            at: folder.file("players.sqlite"),
            schema: SharedSchema(migrator()),
            as: "other"
        )
        try insert()
        let isHeld = Shared(false)
        let mayContinue = Shared(false)
        let values = Values([])
        let holding = observe(values) { db in
            _ = try Row.fetchAll(db.cachedStatement(sql: "SELECT * FROM player"))
            _ = try db.columns(in: "player")
            let count = try Player.fetchCount(db)
            if count == 2 {
                isHeld.change { $0 = true }
                mayContinue.wait { $0 }
            }
            return count
        }
        try await eventually("the first value") { values.value == [1] }
        try insert()
        try await eventually("the held fetch") { isHeld.value }
        let names = Shared<[[String]]>([])
        let observation = observe(Values([])) { db in
            let row = try Row.fetchOne(db.cachedStatement(sql: "SELECT * FROM player"))
            let found = [Array(row!.columnNames), try db.columns(in: "player").map(\.name)]
            names.change { $0 += found }
            return 0
        }
        try await other.write { try $0.execute(sql: "ALTER TABLE player RENAME COLUMN score TO points") }
        mayContinue.change { $0 = true }
        try await eventually("the first fetch") { names.value.count >= 2 }
        #expect(names.value.prefix(2).allSatisfy { $0 == ["id", "name", "points"] }, "\(names.value)")
        withExtendedLifetime((holding, observation)) {}
    }

    /// This is `theFirstFetchKnowsTheSchema` on the writer connection, beside a connection that waits for no turn.
    @Test func theFirstFetchOnTheWriterKnowsTheSchema() async throws {
        try insert()
        let stranger = try DatabaseQueue(path: folder.file("players.sqlite").path)
        let isHeld = Shared(false)
        let mayContinue = Shared(false)
        db.asyncWriteWithoutTransaction { db in
            _ = try? Row.fetchAll(db.cachedStatement(sql: "SELECT * FROM player"))
            _ = try? db.columns(in: "player")
            isHeld.change { $0 = true }
            mayContinue.wait { $0 }
        }
        try await eventually("the writer is busy") { isHeld.value }
        let names = Shared<[[String]]>([])
        var tracking = ValueObservation.tracking { db in
            let row = try Row.fetchOne(db.cachedStatement(sql: "SELECT * FROM player"))
            let found = [Array(row!.columnNames), try db.columns(in: "player").map(\.name)]
            names.change { $0 += found }
            return 0
        }
        tracking.requiresWriteAccess = true
        let observation = tracking.start(
            in: db,
            scheduling: .async(onQueue: DispatchQueue(label: "values")),
            onError: { Issue.record($0) },
            onChange: { _ in }
        )
        try await stranger.write { try $0.execute(sql: "ALTER TABLE player RENAME COLUMN score TO points") }
        mayContinue.change { $0 = true }
        try await eventually("the first fetch") { names.value.count >= 2 }
        #expect(names.value.prefix(2).allSatisfy { $0 == ["id", "name", "points"] }, "\(names.value)")
        withExtendedLifetime(observation) {}
    }

    /// The date of the transaction in which one fetch was made is not that of later fetches.
    @Test func eachFetchHasADateOfItsOwn() async throws {
        let dates = Shared<[Date]>([])
        let values = Values([])
        func observeDates() -> AnyDatabaseCancellable {
            observe(values) { db in
                let date = try db.transactionDate
                dates.change { $0.append(date) }
                return try Player.fetchCount(db)
            }
        }
        let first = observeDates()
        try await eventually("the first value") { values.value.last == 0 }
        try insert()
        try await eventually("the second value") { values.value.last == 1 }
        let before = Date()
        try await eventually("a later date") { Date() > before.addingTimeInterval(0.002) }
        let started = dates.value.count
        let second = observeDates()
        try await eventually("the value of the second observation") { dates.value.count > started }
        #expect(try #require(dates.value.last) > before)
        withExtendedLifetime((first, second)) {}
    }
}
