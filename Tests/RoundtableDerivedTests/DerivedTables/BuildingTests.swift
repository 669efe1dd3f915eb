import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDerived
@testable import RoundtableGate

/// How derived tables become complete, and what prevents that (rule E6).
@Suite struct BuildingTests {
    private let fixture: DerivedTableFixture
    init() throws { fixture = try DerivedTableFixture() }

    private static let item = "CREATE TABLE item (id INTEGER PRIMARY KEY, size INTEGER, note TEXT)"
    private static let sizes = SecondaryIndex("sizes", version: 1, of: "item", fields: [.init("size")])
    private static let notes = SecondaryIndex(
        "notes",
        version: 1,
        of: "item",
        fields: [.init("city", "json_extract(note, '$.city')")]
    )

    private static func migrator(_ sql: String) -> DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("v1") { try $0.execute(sql: sql) }
        return migrator
    }

    private func open(
        _ derivedTables: [any DerivedTable],
        revision: Int = 1,
        _ sql: String = item,
        _ change: (inout SharedDatabase.Options) -> Void = { _ in }
    ) throws -> SharedDatabase {
        try fixture.open(derivedTables, revision: revision, migrator: Self.migrator(sql), change)
    }

    /// Before anything is derived from them.
    private func fill(_ count: Int, _ sql: String = item) throws {
        let plain = try open([], sql)
        try plain.write { db in
            let statement = try db.makeStatement(sql: "INSERT INTO item (id, size, note) VALUES (?, ?, '{}')")
            for id in 1...count { try statement.execute(arguments: [id, id]) }
        }
        try plain.close()
    }

    /// Collects events of a participant.
    private final class Events: Sendable {
        let steps = Shared<[DerivedTableProgress]>([])
        let failures = Shared<[any Error]>([])
        let rebuilding = Shared<[String]>([])

        func note(_ event: DerivedTableEvent) {
            switch event {
            case .progress(let step): steps.change { $0.append(step) }
            case .failed(let error): failures.change { $0.append(error) }
            case .rebuilding(let names): rebuilding.change { $0 += names }
            }
        }
    }

    // MARK: What does not make opening fail

    /// Whether the row is among the first ones or not, and whatever else is declared.
    @Test(arguments: [1, 1500])
    func aRowThatCannotBeDerivedFrom(id: Int) throws {
        try fill(2000)
        try fixture.stranger().write { try $0.execute(sql: "UPDATE item SET note = 'no JSON' WHERE id = \(id)") }
        for round in 1...2 {
            let events = Events()
            let db = try open([Self.notes, Self.sizes]) { $0.probe(events.note) }
            defer { try? db.close() }
            #expect(events.failures.value.count == 1)
            let error = try #require(events.failures.value.first as? DerivedTableError)
            guard case .notDerived(_, "notes", "item", let after, let upTo, let reason) = error else {
                return #expect(Bool(false), "\(error)")
            }
            #expect(after == (id == 1 ? nil : "\(id - 1)") && upTo == "\(id)" && reason.contains("JSON"), "\(round)")
            #expect(try db.read { try Self.sizes.count(in: $0) } == 2000)
            #expect(throws: DerivedTableError.self) { try db.read { try Self.notes.count(in: $0) } }
            try db.write {
                try $0.execute(sql: "INSERT INTO item (note) VALUES ('{}'); DELETE FROM item WHERE id > 2000")
            }
        }
        try fixture.stranger().write { try $0.execute(sql: "UPDATE item SET note = '{}' WHERE id = \(id)") }
        let db = try open([Self.notes, Self.sizes])
        #expect(try db.read { try Self.notes.count(in: $0) } == 2000)
    }

    @Test func aLockThatIsHeldForLong() async throws {
        try fill(30_000)
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let stranger = try DatabaseQueue(path: fixture.url.path, configuration: configuration)
        let events = Events()
        let db = try open([Self.sizes]) { options in
            options.busyTimeout = .milliseconds(50)
            options.probe { (event: DerivedTableEvent) in
                if events.steps.value.isEmpty, case .progress = event {
                    try? stranger.inDatabase { try $0.beginTransaction(.immediate) }
                }
                events.note(event)
            }
        }
        #expect((events.failures.value.first as? DatabaseError)?.resultCode == .SQLITE_BUSY)
        #expect(throws: DerivedTableError.self) { try db.read { try Self.sizes.count(in: $0) } }
        try await stranger.writeWithoutTransaction { try $0.rollback() }
        try await eventually("it is built in the background") {
            (try? await db.read { try Self.sizes.count(in: $0) }) == 30_000
        }
        #expect(events.failures.value.count == 1)
    }

    @Test func aFullDisk() async throws {
        try fill(30_000)
        let pages = try await fixture.stranger().read { try Int.fetchOne($0, sql: "PRAGMA page_count") ?? 0 }
        let events = Events()
        let db = try open([Self.sizes]) { options in
            // There is space for the tables of the derived table, but not for all of their rows.
            options.configuration.prepareDatabase { db in
                if !db.configuration.readonly { try db.execute(sql: "PRAGMA max_page_count = \(pages + 40)") }
            }
            options.probe(events.note)
        }
        defer { try? db.close() }
        #expect((events.failures.value.first as? DatabaseError)?.resultCode == .SQLITE_FULL)
        #expect(throws: DerivedTableError.self) { try db.read { try Self.sizes.count(in: $0) } }
        try await db.writeWithoutTransaction { try $0.execute(sql: "PRAGMA max_page_count = 100000") }
        try await eventually("it is built in the background") {
            (try? await db.read { try Self.sizes.count(in: $0) }) == 30_000
        }
        #expect(events.failures.value.count == 1)
    }

    /// A field whose function throws an error of SQLite's at one row, as often as requested.
    private struct Failing {
        let attempts = Shared(0)
        let index: SecondaryIndex

        init(_ code: ResultCode, times: Int, row: Int = 1500) {
            let attempts = attempts
            let function = DatabaseFunction("failing", argumentCount: 1, pure: true) { values in
                guard Int.fromDatabaseValue(values[0]) == row else { return values[0] }
                attempts.change { $0 += 1 }
                if attempts.value <= times { throw DatabaseError(resultCode: code) }
                return values[0]
            }
            index = SecondaryIndex(
                "failing",
                version: 1,
                of: "item",
                fields: [.init("x", "failing(size)")],
                functions: [function]
            )
        }
    }

    /// What passes is tried again, also damage, which FTS5 reports when the system could not read (rule E6b).
    @Test(
        .timeLimit(.minutes(1)),
        arguments: [
            ResultCode.SQLITE_CORRUPT_VTAB, .SQLITE_CORRUPT, .SQLITE_IOERR, .SQLITE_IOERR_READ, .SQLITE_FULL,
            // A file that may not be written may be writable later.
            .SQLITE_READONLY,
        ]
    )
    func anErrorThatPasses(code: ResultCode) async throws {
        try fill(2000)
        let failing = Failing(code, times: 2)
        let events = Events()
        let db = try open([failing.index]) { $0.probe(events.note) }
        defer { try? db.close() }
        #expect((events.failures.value.first as? DatabaseError)?.extendedResultCode == code)
        try await eventually("it is built in the background") {
            (try? await db.read { try failing.index.count(in: $0) }) == 2000
        }
        #expect(failing.attempts.value == 3)
    }

    /// Nothing is derived in the transaction of the upgrade, which an I/O error would undo (rules E5, E6b).
    @Test(
        .timeLimit(.minutes(1)),
        arguments: [
            ResultCode.SQLITE_CORRUPT_VTAB, .SQLITE_CORRUPT, .SQLITE_IOERR, .SQLITE_IOERR_READ, .SQLITE_FULL,
            .SQLITE_READONLY, .SQLITE_NOMEM,
        ]
    )
    func anErrorOfTheFirstRows(code: ResultCode) async throws {
        try fill(100)
        let failing = Failing(code, times: 2, row: 2)
        let events = Events()
        let db = try open([failing.index, Self.sizes]) { $0.probe(events.note) }
        defer { try? db.close() }
        try await eventually("both are built in the background") {
            (try? await db.read { try (failing.index.count(in: $0), Self.sizes.count(in: $0)) == (100, 100) }) == true
        }
        #expect((events.failures.value.first as? DatabaseError)?.extendedResultCode == code)
        #expect(events.failures.value.count == 1 && failing.attempts.value == 3)
    }

    /// Triggers are restored within a write although the first rows cannot be derived from then, and the rows follow in the background
    /// (rules E6b, E7).
    @Test(arguments: [ResultCode.SQLITE_CORRUPT_VTAB, .SQLITE_FULL])
    func anErrorWhileTriggersAreRestored(code: ResultCode) async throws {
        try fill(100)
        let failing = Failing(code, times: 1, row: 2)
        // It does not fail yet.
        failing.attempts.change { $0 = 1 }
        let db = try open([failing.index])
        defer { try? db.close() }
        #expect(try await db.read { try failing.index.count(in: $0) } == 100)
        failing.attempts.change { $0 = 0 }
        try await fixture.stranger().write { db in
            try db.execute(
                sql: "DROP TABLE item; \(Self.item); INSERT INTO item (id, size) VALUES (1, 1), (2, 2), (3, 3)"
            )
        }
        try await db.write { try $0.execute(sql: "INSERT INTO item (id, size) VALUES (4, 4)") }
        try await eventually("it is built in the background") {
            (try? await db.read { try failing.index.count(in: $0) }) == 4
        }
        #expect(failing.attempts.value == 2)
    }

    /// Whatever is damaged in one derived table, others are built (rule E6b).
    @Test func damageInOneDerivedTable() async throws {
        try fill(2000)
        let failing = Failing(.SQLITE_CORRUPT_VTAB, times: .max)
        let events = Events()
        let db = try open([failing.index, Self.sizes]) { $0.probe(events.note) }
        defer { try? db.close() }
        #expect(try await db.read { try Self.sizes.count(in: $0) } == 2000)
        #expect(events.failures.value.count == 1)
        try await eventually("the damaged one is tried again") { failing.attempts.value >= 3 }
        #expect(events.failures.value.count == 1)
    }

    /// Also when the rows of its table cannot even be counted.
    @Test func damageInOneTable() async throws {
        try fill(2000)
        let stranger = try fixture.stranger()
        try await stranger.write {
            try $0.execute(
                sql: "CREATE TABLE other (id INTEGER PRIMARY KEY, size INTEGER); INSERT INTO other VALUES (1, 1)"
            )
        }
        let root = try await stranger.read {
            try Int.fetchOne($0, sql: "SELECT rootpage FROM sqlite_master WHERE name = 'other'")
        }
        let size = try await stranger.read { try Int.fetchOne($0, sql: "PRAGMA page_size") }
        try await stranger.writeWithoutTransaction { _ = try $0.checkpoint(.truncate) }
        try stranger.close()
        let file = try FileHandle(forUpdating: fixture.url)
        try file.seek(toOffset: UInt64(try #require(root) - 1) * UInt64(try #require(size)))
        try file.write(contentsOf: Data(repeating: 0xFF, count: 100))
        try file.close()
        let damaged = SecondaryIndex("damaged", version: 1, of: "other", fields: [.init("size")])
        let events = Events()
        let db = try open([damaged, Self.sizes]) { $0.probe(events.note) }
        defer { try? db.close() }
        #expect(try await db.read { try Self.sizes.count(in: $0) } == 2000)
        #expect(events.failures.value.count == 1)
    }

    /// A database that is closed ends the attempts (rule E6b).
    @Test(.timeLimit(.minutes(1))) func anErrorThatEndsBuilding() async throws {
        try fill(2000)
        let failing = Failing(.SQLITE_MISUSE, times: 1)
        let db = try open([failing.index])
        defer { try? db.close() }
        #expect(failing.attempts.value == 1)
        // Another participant fails twice, after this one. When it has tried twice again, this one would have tried again, too.
        let other = try BuildingTests()
        try other.fill(2000)
        let control = Failing(.SQLITE_FULL, times: 2)
        let failingTwice = try other.open([control.index])
        defer { try? failingTwice.close() }
        try await eventually("the other is built") { control.attempts.value == 3 }
        #expect(failing.attempts.value == 1)
        await #expect(throws: DerivedTableError.self) { try await db.read { try failing.index.count(in: $0) } }
    }

    /// Opens a database that is suspended when building has begun.
    private func openSuspended(
        _ process: ProcessSuspension,
        _ events: Events,
        _ change: (inout SharedDatabase.Options) -> Void = { _ in }
    ) throws -> SharedDatabase {
        try fill(30_000)
        let db = try open([Self.sizes]) { options in
            options.process = process
            options.whileSuspended = .wait
            options.suspensionPolicy = .everything
            options.probe { (event: DerivedTableEvent) in
                if events.steps.value.isEmpty, case .progress = event {
                    _ = process.suspend(until: MonotonicClock.now.addingSaturating(1_000_000_000))
                }
                events.note(event)
            }
            change(&options)
        }
        #expect((events.failures.value.first as? DatabaseError)?.isSuspension == true)
        return db
    }

    @Test func aSuspension() async throws {
        let process = ProcessSuspension()
        let db = try openSuspended(process, Events())
        process.resume()
        try await eventually("it is built after resuming") {
            (try? await db.read { try Self.sizes.count(in: $0) }) == 30_000
        }
    }

    /// The key's provider fails when the connections are opened again, for example because the device is locked.
    @Test(.timeLimit(.minutes(1))) func aKeyThatIsNotAvailable() async throws {
        let process = ProcessSuspension()
        let isLocked = Shared(false)
        let refusals = Shared(0)
        let db = try openSuspended(process, Events()) { options in
            options.configuration.prepareDatabase { _ in
                if !isLocked.value { return }
                refusals.change { $0 += 1 }
                throw EncryptionError.keyUnavailable(path: "", underlying: CancellationError())
            }
        }
        isLocked.change { $0 = true }
        process.resume()
        try await eventually("it is tried again") { refusals.value >= 3 }
        isLocked.change { $0 = false }
        try await eventually("it is built") { (try? await db.read { try Self.sizes.count(in: $0) }) == 30_000 }
    }

    /// What ends building is reported, although the suspension was the last obstacle to be reported.
    @Test(.timeLimit(.minutes(1))) func theErrorThatEndsBuildingIsReported() async throws {
        let process = ProcessSuspension()
        let events = Events()
        let db = try openSuspended(process, events)
        defer { try? db.close() }
        var newer = Self.migrator(Self.item)
        newer.registerMigration("v2") { try $0.execute(sql: "CREATE TABLE other (id INTEGER PRIMARY KEY)") }
        try newer.migrate(fixture.stranger())
        process.resume()
        try await eventually("it is reported") {
            if case .schemaTooNew? = events.failures.value.last as? SharedDatabaseError { return true }
            return false
        }
        #expect(events.failures.value.count == 2)
    }

    // MARK: Steps

    /// Others wait for their turn as long as a step takes, also when a row takes long.
    @Test func rowsThatTakeLong() throws {
        try fill(100)
        let slow = DatabaseFunction("slow", argumentCount: 1, pure: true) { values in
            let end = MonotonicClock.now + 2_000_000
            while MonotonicClock.now < end {}
            return values[0]
        }
        let index = SecondaryIndex(
            "slow",
            version: 1,
            of: "item",
            fields: [.init("x", "slow(size)")],
            functions: [slow]
        )
        let events = Events()
        let db = try open([index]) { $0.probe(events.note) }
        let steps = events.steps.value.map(\.done)
        let sizes = zip(steps.dropFirst(), steps).map { $0 - $1 }
        #expect(sizes.allSatisfy { $0 < 12 } && (steps.first ?? 100) < 24, "\(steps)")
        #expect(try db.read { try index.count(in: $0) } == 100)
    }

    @Test func pace() {
        var pace = BuildingPace()
        var rows: [Int] = []
        for _ in 1...6 {
            rows.append(pace.next(within: 10_000_000))
            pace.took(Nanoseconds(rows.last!) * 100_000, for: rows.last!)
        }
        #expect(rows == [4, 8, 16, 32, 64, 100])
        #expect(pace.next(within: 0) == 1)
        pace.took(50_000_000, for: 1)
        #expect(pace.next(within: 10_000_000) == 1)
        pace.narrow(64)
        for _ in 1...10 { pace.took(1, for: pace.next(within: 10_000_000)) }
        #expect(pace.next(within: 10_000_000) == 32)
    }

    /// The key up to which building has come is what the database has, not what Swift makes of it.
    @Test func keysWithNUL() throws {
        let sql = "CREATE TABLE t (k TEXT PRIMARY KEY, v INTEGER)"
        try open([], sql).write { db in
            try db.execute(
                sql: """
                    WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
                    INSERT INTO t SELECT 'k' || char(0) || i, i FROM n
                    """
            )
        }
        let index = SecondaryIndex("ix", version: 1, of: "t", fields: [.init("v")])
        let registry = try DerivedTableRegistry(DerivedTableSet(revision: 1, [index]))
        let one = try #require(registry.derivedTables.first)
        try fixture.stranger().write { db in
            try registry.upgrade(db)
            let projection = Projection(one, try DerivedTableRegistry.shape(one, db))
            try Projection.drop("ix", in: "main", db)
            try projection.create(db)
            var steps = 0
            while try projection.build(db, count: 100), steps < 100 { steps += 1 }
            #expect(steps == 30 || steps == 29)
            #expect(try Int.fetchOne(db, sql: "SELECT count(*) FROM roundtable_ext_ix") == 3000)
        }
    }

    /// What is derived comes from the main database.
    @Test func aTemporaryTableOfTheSameName() throws {
        try fill(3000)
        let db = try open([Self.sizes]) { options in
            options.configuration.prepareDatabase { db in
                try db.execute(
                    sql:
                        "CREATE TEMP TABLE item (id INTEGER PRIMARY KEY, size INTEGER); INSERT INTO temp.item VALUES (1, 777)"
                )
            }
        }
        let found = try db.read { try Row.fetchOne($0, sql: "SELECT count(*), max(size) FROM roundtable_ext_sizes") }
        #expect(found?[0] == 3000 && found?[1] == 3000)
    }
}
