import Foundation
import GRDB
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDerived

/// What becomes of derived tables when the tables that they are derived from change (rules E5, E7, E8).
@Suite struct DerivedTableSchemaChangeTests {
    private let fixture: DerivedTableFixture
    init() throws { fixture = try DerivedTableFixture() }

    private static let sizes = SecondaryIndex("sizes", version: 1, of: "item", fields: [.init("size")])
    private static let counts = AggregateTable("counts", version: 1, of: "item")

    private static func migrator(_ next: ((Database) throws -> Void)? = nil) -> DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("v1") { db in
            try db.execute(
                sql: """
                    CREATE TABLE item (id INTEGER PRIMARY KEY, size INTEGER, code TEXT, note TEXT);
                    CREATE UNIQUE INDEX codes ON item (code) WHERE size > 0;
                    INSERT INTO item (size, note) VALUES (1, 'a'), (2, 'b');
                    """
            )
        }
        guard let next else { return migrator }
        // Called by the one test that made it, on its thread, while it waits.
        nonisolated(unsafe) let migrate = next
        migrator.registerMigration("v2") { try migrate($0) }
        return migrator
    }

    private static let dropNote = "ALTER TABLE item DROP COLUMN note"

    // MARK: Migrations

    /// The release that drops a column no longer names it.
    @Test(arguments: [true, false]) func aColumnOfWhatChangesIsDropped(isDropped: Bool) throws {
        let old = SecondaryIndex("ix", version: 1, of: "item", fields: [.init("note")])
        try fixture.open([old, Self.counts], migrator: Self.migrator()).close()
        let new = SecondaryIndex("ix", version: 2, of: "item", fields: [.init("size")])
        let migrator = Self.migrator { try $0.execute(sql: Self.dropNote) }
        let set: [any DerivedTable] = isDropped ? [Self.counts] : [new, Self.counts]
        let db = try fixture.open(set, revision: 2, migrator: migrator)
        if !isDropped { #expect(try db.read { try new.count(in: $0, where: "size = 2") } == 1) }
        #expect(try db.read { try Self.counts.total(in: $0)?.count } == 2)
    }

    /// A derived table that stays names all columns in its triggers, because of the partial index.
    @Test func aColumnIsDroppedThatOnlyTriggersName() throws {
        try fixture.open([Self.sizes, Self.counts], migrator: Self.migrator()).close()
        let migrator = Self.migrator { db in
            try db.execute(sql: "INSERT INTO item (size) VALUES (3)")
            try db.execute(sql: Self.dropNote)
            try db.execute(sql: "INSERT INTO item (size) VALUES (4)")
        }
        let db = try fixture.open([Self.sizes, Self.counts], migrator: migrator)
        #expect(try db.read { try Self.counts.total(in: $0)?.count } == 4)
        try db.write { try $0.execute(sql: "INSERT INTO item (size) VALUES (5)") }
        #expect(try db.read { try Self.sizes.count(in: $0) } == 5)
        #expect(try db.read { try Self.counts.total(in: $0)?.count } == 5)
    }

    /// A migration that writes, of a program that has no longer the function of a derived table that it drops.
    @Test func aFunctionIsGone() throws {
        let index = DerivedTableFixture.twice()
        try fixture.open([index, Self.counts], migrator: Self.migrator()).close()
        let migrator = Self.migrator { try $0.execute(sql: "UPDATE item SET size = size + 1") }
        let db = try fixture.open([Self.counts], revision: 2, migrator: migrator)
        #expect(try db.read { try Self.counts.total(in: $0)?.count } == 2)
    }

    /// A program dies between putting tables aside and upgrading: another program, of the former release, rebuilds them.
    @Test func whatWasPutAside() async throws {
        let db = try fixture.open([Self.sizes, Self.counts], migrator: Self.migrator())
        let registry = try DerivedTableRegistry(DerivedTableSet(revision: 2, [Self.counts]))
        let stranger = try fixture.stranger()
        try await stranger.write { db in
            try registry.detachWhatChanges(db)
            try db.execute(sql: "INSERT INTO item (size) VALUES (3)")
        }
        let path = db.path
        #expect(throws: DerivedTableError.building(path: path, name: "sizes", done: 0, total: 2)) {
            _ = try db.read { try Self.sizes.count(in: $0) }
        }
        #expect(try await db.read { try Self.counts.total(in: $0)?.count } == 3)
        try await db.write { _ in }
        try await eventually("it is rebuilt") { (try? await db.read { try Self.sizes.count(in: $0) }) == 3 }
    }

    @Test func schemaChangesOutsideOfMigrations() async throws {
        let db = try fixture.open([Self.sizes, Self.counts], migrator: Self.migrator())
        try await db.write { db in
            try DerivedTableSet.detach(from: "ITEM", in: db)
            try db.execute(sql: Self.dropNote + "; INSERT INTO item (size) VALUES (3)")
        }
        try await db.write { _ in }
        try await eventually("they are rebuilt") {
            (try? await db.read { db in
                try Self.sizes.count(in: db) == 3 && Self.counts.total(in: db)?.count == 3
            }) == true
        }
    }

    // MARK: What others do

    /// No reader gets rows that do not follow the table.
    @Test(arguments: [
        """
        CREATE TABLE new (id INTEGER PRIMARY KEY, size INTEGER, code TEXT, note TEXT); INSERT INTO new SELECT * FROM item;
        DROP TABLE item; ALTER TABLE new RENAME TO item
        """,
        "ALTER TABLE item RENAME COLUMN id TO number", "DROP TRIGGER roundtable_ext_counts__delete",
    ])
    func aTableIsRecreated(sql: String) async throws {
        let db = try fixture.open([Self.counts], migrator: Self.migrator())
        #expect(try await db.read { try Self.counts.total(in: $0)?.count } == 2)
        let stranger = try fixture.stranger()
        try await stranger.write { try $0.execute(sql: "\(sql); INSERT INTO item (size) VALUES (3)") }
        let error = DerivedTableError.notFollowing(path: db.path, name: "counts", table: "item")
        await #expect(throws: error) { try await db.read { try Self.counts.total(in: $0) } }
        try await db.write { _ in }
        try await eventually("it is rebuilt") {
            (try? await db.read { try Self.counts.total(in: $0)?.count }) == 3
        }
    }

    @Test func aTableIsRenamed() async throws {
        let events = Shared<[String]>([])
        let db = try fixture.open([Self.counts], migrator: Self.migrator()) { options in
            options.probe { (event: DerivedTableEvent) in
                if case .rebuilding(let names) = event { events.change { $0 += names } }
            }
        }
        #expect(try await db.read { try Self.counts.total(in: $0)?.count } == 2)
        let stranger = try fixture.stranger()
        try await stranger.write { try $0.execute(sql: "ALTER TABLE item RENAME TO other") }
        let error = DerivedTableError.baseTableMissing(path: db.path, name: "counts", table: "item")
        await #expect(throws: error) { try await db.read { try Self.counts.total(in: $0) } }
        for number in 1...3 { try await db.write { try $0.execute(sql: "CREATE TABLE more_\(number) (id)") } }
        await #expect(throws: error) { try await db.read { try Self.counts.total(in: $0) } }
        try await stranger.write { try $0.execute(sql: "ALTER TABLE other RENAME TO item") }
        try await db.write { _ in }
        try await eventually("it is rebuilt") {
            (try? await db.read { try Self.counts.total(in: $0)?.count }) == 2
        }
        // A table that could not be built is not reported.
        try await eventually("it is reported") { !events.value.isEmpty }
        #expect(events.value == ["counts"])
    }

    /// What is looked at once is looked at again when a transaction that changed the schema was rolled back.
    @Test func aSchemaChangeIsRolledBack() throws {
        struct Stop: Error {}
        let db = try fixture.open([Self.counts], migrator: Self.migrator())
        try? db.write { db in
            try db.execute(sql: "DROP TRIGGER roundtable_ext_counts__delete")
            #expect(throws: DerivedTableError.self) { try Self.counts.total(in: db) }
            throw Stop()
        }
        #expect(try db.write { try Self.counts.total(in: $0)?.count } == 2)
    }

    // MARK: Formats

    /// The format is of a later version of Roundtable, and is read by this one.
    @Test func aLaterFormat() throws {
        try fixture.open([Self.counts], migrator: Self.migrator()).close()
        try fixture.stranger().write { db in
            try db.execute(
                sql: """
                    ALTER TABLE roundtable_extensions RENAME COLUMN key_columns TO keys;
                    UPDATE roundtable_extension_settings SET format = 2;
                    """
            )
        }
        let schema = SharedSchema(Self.migrator())
        guard case .available(let reader) = try SharedDatabase.openReadOnly(at: fixture.url, schema: schema, as: "w")
        else { return #expect(Bool(false)) }
        #expect(throws: DerivedTableError.newerFormat(path: reader.path, format: 2)) {
            try reader.read { try Self.counts.total(in: $0) }
        }
        // Damaged, of this format.
        try fixture.stranger().write { try $0.execute(sql: "UPDATE roundtable_extension_settings SET format = 1") }
        let error = #expect(throws: DatabaseError.self) { try reader.read { try Self.counts.total(in: $0) } }
        #expect(error?.resultCode == .SQLITE_CORRUPT && error?.message?.contains("key_columns") == true)
    }

    /// The name of a table that is there for a moment only.
    @Test func aTemporaryDerivedTableNamedCheck() throws {
        let own = SecondaryIndex("check", version: 1, of: "item", fields: [.init("size")])
        let db = try fixture.open([], migrator: Self.migrator()) { $0.temporaryDerivedTables = [own] }
        for count in 3...4 {
            let found = try db.write { db in
                try db.execute(sql: "INSERT INTO item (size) VALUES (1)")
                return try own.count(in: db)
            }
            #expect(found == count)
        }
    }
}
