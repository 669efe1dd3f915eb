import Foundation
import GRDB
import Roundtable
import RoundtableUnitSupport
import Synchronization
import Testing

/// A program of an older version has the database open while one of a newer version migrates it (rules S8–S11, S13, S14).
@Suite(.timeLimit(.minutes(1))) struct NewerSchemaTests {
    let world: UpgradeWorld

    init() throws { world = try UpgradeWorld() }

    // MARK: Refusing writes

    /// **Rules S8, S9**: writes are refused by default. Each kind of write throws the error of opening and writes nothing, and reads continue. A
    /// migration that only changes rows leaves SQLite's schema cookie as it is.
    @Test(arguments: [UpgradeWorld.addsColumn, UpgradeWorld.changesRows]) func writesAreRefused(migration: String)
        async throws
    {
        let old = try world.open()
        try old.insert("A")
        try world.migrateElsewhere(migration)
        let tooNew = world.tooNew([migration])
        #expect(try !world.hasCommits { expectRefused(old, tooNew) })
        await #expect(throws: tooNew) { try await old.write { try $0.execute(sql: UpgradeWorld.insert) } }
        let later: SharedDatabaseError? = await withCheckedContinuation { continuation in
            old.asyncWrite {
                try $0.execute(sql: UpgradeWorld.insert)
            } completion: { _, result in
                if case .failure(let error) = result {
                    return continuation.resume(returning: error as? SharedDatabaseError)
                }
                continuation.resume(returning: nil)
            }
        }
        #expect(later == tooNew)
        #expect(try old.names() == ["A"])
        try await world.expectEvents([.becameNewer(unknownMigrations: [migration])])
    }

    private func expectRefused(_ old: SharedDatabase, _ tooNew: SharedDatabaseError) {
        #expect(throws: tooNew) { try old.insert("B") }
        #expect(throws: tooNew) { try old.insertWithoutTransaction() }
        #expect(throws: tooNew) { try old.barrierWriteWithoutTransaction { try $0.execute(sql: UpgradeWorld.insert) } }
        #expect(throws: tooNew) { try old.unsafeReentrantWrite { try $0.execute(sql: UpgradeWorld.insert) } }
        #expect(throws: tooNew) {
            try old.writeWithoutTransaction { db in
                try db.inTransaction {
                    try db.execute(sql: UpgradeWorld.insert)
                    return .commit
                }
            }
        }
        // A temporary table is not part of the database.
        #expect(throws: Never.self) {
            try old.writeWithoutTransaction { try $0.execute(sql: "CREATE TEMP TABLE t AS SELECT * FROM player") }
        }
    }

    /// **Rule S9**: the side effects of a write are refused, too. The migration has removed the history's triggers, which an admitted write restores.
    @Test func historyIsLeftAlone() throws {
        let old = try world.open()
        try old.history.enable(for: "player")
        try old.insert("A")
        try world.migrateElsewhere("v2: recreates the table") { db in
            try db.execute(
                sql: """
                    CREATE TABLE new (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, score INTEGER NOT NULL DEFAULT 0);
                    INSERT INTO new SELECT * FROM player; DROP TABLE player; ALTER TABLE new RENAME TO player
                    """
            )
        }
        let hasCommits = try world.hasCommits {
            #expect(throws: SharedDatabaseError.self) { try old.insert("B") }
            #expect(throws: SharedDatabaseError.self) {
                try old.insertWithoutTransaction()
            }
            try old.writeWithoutTransaction { _ = try Row.fetchOne($0, sql: "SELECT * FROM player") }
        }
        #expect(!hasCommits)
    }

    // MARK: No write slips in

    ///     old: one access without a transaction    stranger, which takes no turns
    ///     INSERT a
    ///                                              migrates
    ///     INSERT b: refused
    ///
    /// **Rule S10**: the access has checked the schema when it began; each commit is still checked.
    @Test(arguments: [UpgradeWorld.addsColumn, UpgradeWorld.changesRows])
    func migratedBetweenTwoStatements(migration: String) throws {
        let old = try world.open()
        #expect(throws: world.tooNew([migration])) {
            try old.writeWithoutTransaction { db in
                try db.execute(sql: UpgradeWorld.insert)
                try world.migrateElsewhere(migration)
                try db.execute(sql: UpgradeWorld.insert)
            }
        }
        #expect(try old.names() == ["new"])
        #expect(try world.hasMigrated(migration))
    }

    ///     old                                      stranger, which takes no turns
    ///     commits
    ///                                              migrates
    ///     an observer of that commit reads
    ///     the next write: refused
    ///
    /// **Rule S9**: what the observer has read is not taken for what the own commit has made.
    @Test(arguments: [UpgradeWorld.addsColumn, UpgradeWorld.changesRows])
    func migratedBeforeAnObserverReads(migration: String) throws {
        let old = try world.open()
        let failure = Shared<(any Error)?>(nil)
        try old.write { [world] db in
            try db.execute(sql: UpgradeWorld.insert)
            db.afterNextTransaction { db in
                do {
                    try world.migrateElsewhere(migration)
                    _ = try Int.fetchOne(db, sql: "SELECT count(*) FROM player")
                } catch {
                    failure.change { $0 = error }
                }
            }
        }
        #expect(failure.value == nil)
        #expect(throws: world.tooNew([migration])) { try old.insert("B") }
    }

    ///     old: one access without a transaction    stranger, which takes no turns
    ///                                              BEGIN IMMEDIATE, migrates
    ///     INSERT: waits for WRITE
    ///                                              COMMIT
    ///     continues: refused
    ///
    /// **Rule S10**: the statement has begun before the migration was committed.
    @Test(arguments: [UpgradeWorld.addsColumn, UpgradeWorld.changesRows])
    func migratedWhileAStatementWaits(migration: String) async throws {
        let old = try world.open()
        let stranger = try world.stranger()
        let mayCommit = DispatchSemaphore(value: 0)
        let isInside = DispatchSemaphore(value: 0)
        let migrating = Task.detached { [world] in
            try await onThread {
                Result {
                    try world.migrateElsewhere(migration, on: stranger) { _ in
                        isInside.signal()
                        mayCommit.wait()
                    }
                }
            }.get()
        }
        await onThread { isInside.wait() }
        let outcome = await onThread {
            Result {
                try old.writeWithoutTransaction { db in
                    mayCommit.signal()
                    try db.execute(sql: UpgradeWorld.insert)
                }
            }
        }
        try await migrating.value
        #expect(throws: world.tooNew([migration])) { try outcome.get() }
        #expect(try old.names() == [])
    }

    /// **Rule S10**: commits of other participants that are no migrations refuse nothing.
    @Test func otherParticipantsCommitBetweenTwoStatements() throws {
        let old = try world.open()
        let stranger = try world.stranger()
        try old.writeWithoutTransaction { db in
            for round in 1...3 {
                try stranger.write {
                    try $0.execute(sql: "CREATE TABLE t\(round) (a); INSERT INTO player (name) VALUES ('B')")
                }
                try db.execute(sql: UpgradeWorld.insert)
            }
        }
        #expect(try old.names() == ["B", "new", "B", "new", "B", "new"])
    }

    // MARK: The other policies

    /// **Rule S8**: with the policy *continue*, everything continues, and each newer migration is reported once.
    @Test func writesContinue() async throws {
        let old = try world.open { $0.newerSchemaPolicy = .continue }
        try world.migrateElsewhere(UpgradeWorld.addsColumn)
        for _ in 1...3 { try old.insert("A") }
        try old.insertWithoutTransaction()
        try world.migrateElsewhere(UpgradeWorld.changesRows)
        try old.insert("B")
        #expect(try old.names() == ["A", "A", "A", "new", "B"])
        try await world.expectEvents([
            .becameNewer(unknownMigrations: [UpgradeWorld.addsColumn]),
            .becameNewer(unknownMigrations: [UpgradeWorld.addsColumn, UpgradeWorld.changesRows]),
        ])
    }

    /// **Rule S14**: when a write is refused, or a read finds the newer schema, the database is closed. A statement that keeps it open delays that.
    @Test(arguments: ["write", "read", "read-only"]) func isClosed(by access: String) async throws {
        let old =
            access == "read-only"
            ? try world.openReadOnly { $0.newerSchemaPolicy = .close }
            : try world.open { $0.newerSchemaPolicy = .close }
        try world.migrateElsewhere(UpgradeWorld.addsColumn)
        if access == "write" {
            #expect(throws: world.tooNew([UpgradeWorld.addsColumn])) { try old.insert("A") }
        } else {
            #expect(try old.names() == [])
        }
        try await eventually("it is closed") {
            do {
                _ = try await old.read { try Int.fetchOne($0, sql: "SELECT 1") }
                return false
            } catch DatabaseError.SQLITE_MISUSE {
                return true
            }
        }
        #expect(throws: DatabaseError.self) { try old.insert("A") }
        try await world.expectEvents([.becameNewer(unknownMigrations: [UpgradeWorld.addsColumn])])
        #expect(throws: world.tooNew([UpgradeWorld.addsColumn])) { try world.open() }
    }

    /// **Rule S14**: a raw handle that holds the turn keeps the database open. It is closed after that turn has ended.
    @Test func isClosedLater() async throws {
        let old = try world.open { $0.newerSchemaPolicy = .close }
        let raw = try RawSQLite(old.path)
        let handle = try SharedDatabase.RawHandle(attachedTo: raw.pointer, of: old)
        let hasTurn = DispatchSemaphore(value: 0)
        let mayEnd = DispatchSemaphore(value: 0)
        let turn = Task.detached {
            await onThread {
                Result {
                    try handle.turn {
                        hasTurn.signal()
                        mayEnd.wait()
                    }
                }
            }
        }
        await onThread { hasTurn.wait() }
        try world.migrateElsewhere(UpgradeWorld.addsColumn)
        #expect(try old.names() == [])
        try await world.expectEvents([.becameNewer(unknownMigrations: [UpgradeWorld.addsColumn])])
        #expect(try old.names() == [])
        mayEnd.signal()
        try await turn.value.get()
        try await eventually("it is closed") { (try? await old.read { _ in }) == nil }
    }

    // MARK: Noticing

    /// **Rule S11**: reads notice a new schema. What is older than that, such as a snapshot, takes nothing back.
    @Test func readsReport() async throws {
        let old = try world.open()
        let snapshot = try old.snapshotOfNow()
        #expect(try snapshot.countPlayers() == 0)
        try world.migrateElsewhere(UpgradeWorld.addsColumn)
        #expect(try old.names() == [])
        let event = SchemaEvent.becameNewer(unknownMigrations: [UpgradeWorld.addsColumn])
        try await world.expectEvents([event])
        #expect(try snapshot.countPlayers() == 0)
        try snapshot.advanceNow()
        #expect(try snapshot.countPlayers() == 0)
        // An event that comes late would come before the next one.
        try world.migrateElsewhere(UpgradeWorld.changesRows)
        #expect(throws: SharedDatabaseError.self) { try old.insert("B") }
        let both = SchemaEvent.becameNewer(unknownMigrations: [UpgradeWorld.addsColumn, UpgradeWorld.changesRows])
        try await world.expectEvents([event, both])
    }

    ///     the writer of a participant            a snapshot of the participant
    ///     commits its own migration
    ///                                            advances, and finds an unknown one
    ///     notes that it is its own
    ///
    /// **Rule S13**: the migration is still no news.
    @Test func ownMigrationsBesideASnapshot() async throws {
        let advances = Shared<SharedDatabaseSnapshot?>(nil)
        let result = Shared<Result<Void, any Error>?>(nil)
        let db = try world.open { options in
            options.newerSchemaPolicy = .close
            options.configuration.prepareDatabase { db in
                // SQLite reports the end of COMMIT when other connections can read it, and before GRDB's observers do.
                db.trace(options: .profile) { event in
                    guard "\(event)".contains("COMMIT"), let snapshot = advances.value else { return }
                    advances.change { $0 = nil }
                    let hasAdvanced = DispatchSemaphore(value: 0)
                    Thread.detachNewThread {
                        result.change { $0 = Result { try snapshot.advanceNow() } }
                        hasAdvanced.signal()
                    }
                    _ = hasAdvanced.wait(timeout: .now() + 10)
                }
            }
        }
        let snapshot = try db.snapshotOfNow()
        advances.change { $0 = snapshot }
        try world.newer("own") { try $0.execute(sql: "CREATE TABLE own (x)") }.migrateNow(db)
        try #require(result.value).get()
        try db.insert("A")
        try snapshot.advanceNow()
        #expect(try snapshot.countPlayers() == 1)
        #expect(world.events.value == [])
    }

    /// **Rule S13**: an own migration makes no other one known.
    @Test func ownMigrationsBesideForeignOnes() async throws {
        let old = try world.open { $0.newerSchemaPolicy = .continue }
        try world.migrateElsewhere(UpgradeWorld.addsColumn)
        try old.insert("A")
        try world.newer("own").migrateNow(old)
        try world.executeElsewhere(UpgradeWorld.insert)
        try old.insert("B")
        try world.migrateElsewhere(UpgradeWorld.changesRows)
        try old.insert("C")
        try await world.expectEvents([
            .becameNewer(unknownMigrations: [UpgradeWorld.addsColumn]),
            .becameNewer(unknownMigrations: [UpgradeWorld.addsColumn, UpgradeWorld.changesRows]),
        ])
    }

    /// A participant that only reads is notified, and continues to read.
    @Test func readOnlyParticipants() async throws {
        _ = try world.open()
        let widget = try world.openReadOnly()
        #expect(try widget.names() == [])
        try world.migrateElsewhere(UpgradeWorld.addsColumn)
        #expect(try widget.names() == [])
        try await world.expectEvents([.becameNewer(unknownMigrations: [UpgradeWorld.addsColumn])])
    }

    /// A participant that observes is notified without any access.
    @Test func observersAreNotified() async throws {
        let old = try world.open { $0.observation = .always }
        let observer = Observer()
        old.add(transactionObserver: observer)
        try world.migrateElsewhere(UpgradeWorld.changesRows)
        try await world.expectEvents([.becameNewer(unknownMigrations: [UpgradeWorld.changesRows])])
        withExtendedLifetime(observer) {}
    }

    // MARK: What is no newer schema

    /// **Rule S8**: another program changes the schema by hand, or participants that know the migrations apply them. Neither is a newer schema.
    @Test func nothingIsReported() async throws {
        let old = try world.open()
        let unmanaged = try await SharedDatabase.open(at: world.url, schema: .unmanaged, as: "tool")
        try world.executeElsewhere("ALTER TABLE player ADD COLUMN note TEXT")
        try old.insert("A")
        #expect(try old.names() == ["A"])
        // The participant's own migration is known, although its schema does not have it (rule S13).
        try world.migrate(old, UpgradeWorld.changesRows)
        try old.insert("B")
        try old.insertWithoutTransaction()
        // A participant without migrations does not look.
        try world.migrateElsewhere("v3")
        try unmanaged.insert("C")
        #expect(throws: world.tooNew(["v3"])) { try old.insert("D") }
        try await world.expectEvents([.becameNewer(unknownMigrations: ["v3"])])
    }

    /// A program says that one of its migrations merges several: a database that has those is not newer.
    @Test func mergedMigrations() throws {
        let old = try world.open()
        var merged = DatabaseMigrator()
        merged.registerMigration("merged", merging: ["v1"]) { _, _ in }
        let new = try SharedDatabase.open(at: world.url, schema: SharedSchema(merged, merging: ["v1"]), as: "new")
        // The only row of the table was replaced, in the same place.
        #expect(throws: world.tooNew(["merged"])) { try old.insert("A") }
        try new.insert("B")
        #expect(try new.names() == ["B"])
    }

    /// **Rule S14**: the database is restored from a backup, as `backup(to:)` does it.
    @Test func isKnownAgain() async throws {
        let old = try world.open()
        try old.insert("A")
        let copy = try world.backUp()
        try world.migrateElsewhere(UpgradeWorld.addsColumn)
        #expect(throws: SharedDatabaseError.self) { try old.insert("B") }
        try world.restore(copy)
        try old.insert("C")
        #expect(try old.names() == ["A", "C"])
        try await world.expectEvents([.becameNewer(unknownMigrations: [UpgradeWorld.addsColumn]), .isKnownAgain])
        try world.migrateElsewhere(UpgradeWorld.addsColumn)
        #expect(throws: SharedDatabaseError.self) { try old.insert("D") }
    }
}

/// Receives all changes and commits.
private final class Observer: TransactionObserver {
    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { true }
    func databaseDidChange(with event: DatabaseEvent) {}
    func databaseDidCommit(_ db: Database) {}
    func databaseDidRollback(_ db: Database) {}
}
