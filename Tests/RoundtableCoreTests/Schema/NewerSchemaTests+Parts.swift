import Foundation
import GRDB
import RoundtableDiagnostics
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDelivery
@testable import RoundtableGate

/// These tests check other writers: the outbox, raw handles, databases that return from a suspension.
extension NewerSchemaTests {
    /// The last one of the applied migrations is the mark that shows whether others were applied, also on a connection that has read the schema before.
    @Test func theOrderOfMigrations() throws {
        let folder = try TemporaryFolder()
        let (connection, other) = (
            try DatabaseQueue(path: folder.file("a.db").path), try DatabaseQueue(path: folder.file("a.db").path)
        )
        var migrator = DatabaseMigrator()
        for name in ["second", "first"] { migrator.registerMigration(name) { _ in } }
        #expect(try connection.read(migrator.appliedWhileOthersMigrate) == [])
        try migrator.migrate(other)
        #expect(try connection.read(migrator.appliedWhileOthersMigrate) == ["second", "first"])
        #expect(try connection.read(migrator.appliedWhileOthersMigrate) == ["second", "first"])
        let watch = try #require(NewerSchemaWatch(SharedSchema(migrator), path: connection.path, options: .init()))
        let (state, sight) = try connection.read(watch.stateAtOpening)
        #expect(try state == .current && sight.mark == connection.read { try NewerSchemaWatch.Mark($0) })
        #expect(sight.mark?.lastMigration == "first")
    }

    /// The owner of an outbox applies nothing to a schema that it does not know, and counts no try; a newer owner applies it. Commands to perform are
    /// submitted.
    @Test func outbox() throws {
        let old = try world.open()
        let handlers = Self.handlers
        let drain = HandDrain(old, handlers)
        old.drains.add(OutboxDrain(unattended: old, handlers: handlers))
        #expect(try old.perform(AddPlayer(name: "A")).isApplied)
        try world.migrateElsewhere(UpgradeWorld.addsColumn)
        let migrator = world.newerMigrator(UpgradeWorld.addsColumn)
        let new = try SharedDatabase.open(at: world.url, schema: SharedSchema(migrator), as: "new")
        #expect(try !old.perform(AddPlayer(name: "B")).isApplied)
        let outbox = try CommandOutbox(forDatabaseAt: world.url, as: "widget")
        try outbox.submit(AddPlayer(name: "C"))
        for _ in 1...10 { #expect(throws: world.tooNew([UpgradeWorld.addsColumn])) { try drain() } }
        #expect(try new.names() == ["A"])
        #expect(try HandDrain(new, handlers)().applied == 2)
        #expect(try new.names().sorted() == ["A", "B", "C"])
    }

    private struct AddPlayer: OutboxCommand {
        static let name = "add-player"
        static let version = 1
        var name: String
    }

    private static var handlers: OutboxHandlers {
        var handlers = OutboxHandlers()
        handlers.handle(AddPlayer.self) { db, command in _ = try Player(name: command.name).inserted(db) }
        return handlers
    }

    /// **Rules U1, S6**: a raw handle gets no turn, and leaves the turn to other participants.
    @Test(arguments: [UpgradeWorld.addsColumn, UpgradeWorld.changesRows]) func rawHandles(migration: String) throws {
        let old = try world.open()
        let raw = try RawSQLite(old.path)
        let handle = try SharedDatabase.RawHandle(attachedTo: raw.pointer, of: old)
        try handle.turn { try raw.insert("A") }
        try world.migrateElsewhere(migration)
        for _ in 1...2 {
            #expect(throws: world.tooNew([migration])) { try handle.turn { try raw.insert("B") } }
        }
        #expect(!handle.isInTurn)
        let migrator = world.newerMigrator(migration)
        let new = try SharedDatabase.open(at: world.url, schema: SharedSchema(migrator), as: "new")
        try new.insert("C")
        #expect(try new.names() == ["A", "C"])
        let participants = try #require(new.seat.participant).block.participants()
        #expect(!participants.contains { $0.hasTurn && $0.author == "old" })
        try handle.detach()
    }

    /// With the policy *continue*, a raw handle continues.
    @Test func rawHandlesThatContinue() throws {
        let old = try world.open { $0.newerSchemaPolicy = .continue }
        let raw = try RawSQLite(old.path)
        let handle = try SharedDatabase.RawHandle(attachedTo: raw.pointer, of: old)
        try world.migrateElsewhere(UpgradeWorld.addsColumn)
        try handle.turn { try raw.insert("A") }
        #expect(try old.names() == ["A"])
        try handle.detach()
    }

    /// The database was suspended, with or without its connections, while another program migrated it.
    @Test(arguments: SuspensionPolicy.allCases, [UpgradeWorld.addsColumn, UpgradeWorld.changesRows])
    func suspended(policy: SuspensionPolicy, migration: String) throws {
        let old = try world.open { options in
            options.process = ProcessSuspension()
            options.suspensionPolicy = policy
        }
        try old.insert("A")
        #expect(old.suspend(deadline: .now + .seconds(1)).outcome == .released)
        try world.migrateElsewhere(migration)
        old.resume()
        #expect(throws: world.tooNew([migration])) {
            try old.writeWithoutTransaction { try $0.execute(sql: UpgradeWorld.insert) }
        }
        #expect(throws: world.tooNew([migration])) { try old.insert("B") }
        #expect(try old.names() == ["A"])
    }

    /// **Rule S9**: each connection counts its data versions for itself. One that is opened again may begin where the one before ended.
    @Test func reopenedAtTheSameDataVersion() throws {
        let old = try world.open { options in
            options.process = ProcessSuspension()
            options.suspensionPolicy = .everything
        }
        for _ in 0..<5 { try old.insert("A") }
        let last = try #require(old.writer.queue.inDatabase(old.writer.dataVersion))
        #expect(old.suspend(deadline: .now + .seconds(30)).outcome == .released)
        try world.migrateElsewhere(UpgradeWorld.changesRows)
        old.resume()
        try old.writer.openedQueue().inDatabase { db in
            while let version = old.writer.dataVersion(db), version < last {
                try world.executeElsewhere("UPDATE player SET score = score + 1")
                _ = try Player.fetchCount(db)
            }
            #expect(old.writer.dataVersion(db) == last)
        }
        #expect(throws: world.tooNew([UpgradeWorld.changesRows])) { try old.insert("B") }
        #expect(try old.names().count == 5)
    }

    /// **Rule S11**: a reader may see an older snapshot than the one that was reported. That is no news.
    @Test func anOlderSnapshot() throws {
        var options = SharedDatabase.Options()
        let events = Shared<[SchemaEvent]>([])
        options.reporter = EventReporter(path: "", author: "old") { event in
            if let event = event as? SchemaEvent { events.change { $0.append(event) } }
        }
        let watch = try #require(NewerSchemaWatch(SharedSchema(migrator()), path: "", options: options))
        var sight = NewerSchemaWatch.Sight()
        sight = watch.look(after: sight, at: .init(schemaVersion: 3)) { ["v1", "v2", "v3"] }
        let newest = SchemaEvent.becameNewer(unknownMigrations: ["v2", "v3"])
        #expect(events.value == [newest])
        let older = try DatabaseQueue()
        try migrator(upTo: 2).migrate(older)
        #expect(try older.read { watch.readerSees(2, $0) })
        #expect(events.value == [newest] && watch.reported == ["v2", "v3"])
    }

    /// **Rule S9**: `status` and `doctor` show that writes are refused, and that they are not refused any more.
    @Test(arguments: SharedDatabase.NewerSchemaPolicy.allCases.filter { $0 != .close })
    func shownToOtherProcesses(policy: SharedDatabase.NewerSchemaPolicy) throws {
        let old = try world.open { $0.newerSchemaPolicy = policy }
        let isRefused = policy == .refuseWrites
        func expect(_ isRefused: Bool, sourceLocation: SourceLocation = #_sourceLocation) throws {
            let status = try DatabaseStatus(ofDatabaseAt: world.url)
            let shown = status.participants.filter(\.refusesWrites).map(\.author)
            #expect(shown == (isRefused ? [old.author] : []), sourceLocation: sourceLocation)
            let findings = try DatabaseDiagnosis(ofDatabaseAt: world.url).findings.filter { $0.topic == .writesRefused }
            #expect(findings.count == (isRefused ? 1 : 0), sourceLocation: sourceLocation)
            #expect(findings.allSatisfy { $0.severity == .warning }, sourceLocation: sourceLocation)
        }
        try expect(false)
        try world.migrateElsewhere(UpgradeWorld.addsColumn)
        _ = try? old.insert("A")
        try expect(isRefused)
        // A slot that is claimed later shows it, too.
        try #require(old.seat.participant).leave()
        waitUntil("it has another slot") {
            _ = try? old.insert("A")
            return old.seat.participant?.isSeated == true
        }
        try expect(isRefused)
        let other = try DatabaseQueue(path: old.path)
        try other.write { db in
            let sql = "DELETE FROM grdb_migrations WHERE identifier = ?"
            try db.execute(sql: sql, arguments: [UpgradeWorld.addsColumn])
        }
        try old.insert("B")
        try expect(false)
    }

    /// An error message that says what to do.
    @Test func theError() throws {
        let old = try world.open()
        try world.migrateElsewhere(UpgradeWorld.addsColumn)
        let error = #expect(throws: SharedDatabaseError.self) { try old.insert("A") }
        let text = try #require(error?.description)
        #expect(
            text.contains(old.path) && text.contains(UpgradeWorld.addsColumn) && text.contains("Update this program")
        )
        #expect(error?.localizedDescription == "The database was changed by a newer version of this program.")
        #expect(error?.recoverySuggestion == "Update this program.")
    }
}

extension UpgradeWorld {
    /// All migrations of the newer program.
    func newerMigrator(_ last: String) -> DatabaseMigrator {
        var newer = migrator()
        newer.registerMigration(last) { _ in }
        return newer
    }
}
