import Foundation
import GRDB
import RoundtableUnitSupport
import Testing

import enum RoundtableTestSupport.DerivedTableWorld

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDerived
@testable import RoundtableDiagnostics

/// Which sets of derived tables a program may open a database with, and what becomes of the database (rules E4 to E8).
@Suite struct DerivedTableSetTests {
    private let fixture: DerivedTableFixture
    init() throws { fixture = try DerivedTableFixture() }

    private static func sums(version: Int = 1, where filter: String? = nil) -> AggregateTable {
        AggregateTable(
            "sums",
            version: version,
            of: "item",
            where: filter,
            groupedBy: [.init("box")],
            values: [.init("size")]
        )
    }
    private static let fields = SecondaryIndex(
        "fields",
        version: 1,
        of: "item",
        fields: [.init("initial", "substr(name, 1, 1)")]
    )

    private func difference(_ body: () throws -> Void) -> (kind: String, DerivedTableDifference)? {
        do {
            try body()
        } catch DerivedTableError.setDiffers(_, _, let difference) {
            return ("differs", difference)
        } catch DerivedTableError.setTooOld(_, _, _, let difference) {
            return ("too old", difference)
        } catch DerivedTableError.versionNotRaised(_, let difference) {
            return ("not raised", difference)
        } catch {
            Issue.record("\(error)")
        }
        return nil
    }

    /// A connection that has read the schema before another process has created the tables finds them.
    @Test func tablesThatAnotherProcessHasCreated() throws {
        let folder = try TemporaryFolder()
        let (connection, other) = (
            try DatabaseQueue(path: folder.file("a.db").path), try DatabaseQueue(path: folder.file("a.db").path)
        )
        #expect(try connection.read { try !StoredDerivedTable.exist($0) })
        try other.write { try $0.execute(sql: "CREATE TABLE roundtable_extensions (name TEXT PRIMARY KEY)") }
        #expect(try connection.read { try StoredDerivedTable.exist($0) })
    }

    private func insertItems(_ count: Int, _ db: SharedDatabase) throws {
        try db.write { db in
            let statement = try db.makeStatement(sql: "INSERT INTO item (id, box, name, size) VALUES (?, ?, 'n', ?)")
            for id in 1...count { try statement.execute(arguments: [id, ["a", "b"][id % 2], id]) }
        }
    }

    @Test func allThatMayDiffer() throws {
        try fixture.open([Self.sums(), Self.fields]).close()
        // The order does not matter.
        try fixture.open([Self.fields, Self.sums()]).close()

        let missing = try #require(difference { _ = try fixture.open([Self.sums()]) })
        #expect(missing.kind == "differs" && missing.1.missing == ["fields"] && missing.1.extra == [])
        let extra = try #require(
            difference { _ = try fixture.open([Self.sums(), Self.fields, DerivedTableWorld.words]) }
        )
        #expect(extra.kind == "differs" && extra.1.extra == ["words"])
        let version = try #require(difference { _ = try fixture.open([Self.sums(version: 2), Self.fields]) })
        #expect(version.1.different == ["sums": .version(declared: 2, stored: 1)])
        let definition = try #require(difference { _ = try fixture.open([Self.sums(where: "size > 0"), Self.fields]) })
        guard case .definition(_, _, let parts) = definition.1.different["sums"] else { return #expect(Bool(false)) }
        #expect(parts.map(\.name) == ["where"] && parts[0].declared == "size > 0" && parts[0].stored == nil)
        let text = "'sums' is defined differently (where: none in the database, 'size > 0' in this program)"
        #expect(definition.1.description == text)
        let none = try #require(difference { _ = try fixture.open([]) })
        #expect(none.kind == "too old" && none.1.missing == ["fields", "sums"])

        // The revision is raised, but not what has changed.
        let unraised = try #require(difference { _ = try fixture.open([Self.sums(where: "size > 0")], revision: 2) })
        #expect(unraised.kind == "not raised")
        try fixture.open([Self.sums(version: 2, where: "size > 0")], revision: 2).close()
        // The revision is raised, and a version goes back.
        let lowered = try #require(difference { _ = try fixture.open([Self.sums(where: "size > 0")], revision: 3) })
        #expect(lowered.kind == "not raised")
        #expect(lowered.1.different == ["sums": .version(declared: 1, stored: 2)])
        let old = try #require(difference { _ = try fixture.open([Self.sums(), Self.fields]) })
        #expect(old.kind == "too old" && old.1.extra == ["fields"])
        // A program that declares nothing is not compared; nor is one that only reads.
        try SharedDatabase.open(at: fixture.url, schema: .unmanaged, as: "tool").close()
        let schema = SharedSchema(
            DerivedTableWorld.migrator(),
            derivedTables: DerivedTableSet(revision: 1, [Self.sums()])
        )
        guard
            case .available(let reader) = try SharedDatabase.openReadOnly(at: fixture.url, schema: schema, as: "reader")
        else { return #expect(Bool(false)) }
        #expect(throws: DerivedTableError.self) { try reader.read { try Self.sums().totals(in: $0) } }
        #expect(throws: DerivedTableError.notRegistered(path: reader.path, name: "fields")) {
            try reader.read { try Self.fields.count(in: $0) }
        }
        #expect(try reader.read { try Self.sums(version: 2, where: "size > 0").totals(in: $0) } == [])
    }

    /// Also where the file has been written by something else, and where a list would be too long to read.
    @Test func whatDiffersInADefinition() throws {
        func parts(_ one: any DerivedTable, _ other: any DerivedTable) -> [String] {
            DerivedTableDifference.DefinitionPart.differing(
                one.definition.configuration,
                other.definition.configuration
            )
            .map(\.description)
        }
        func view(_ table: String, _ group: String?, _ order: [MaterializedView.SortTerm]) -> MaterializedView {
            MaterializedView("a", version: 1, of: table, groupedBy: group, sortedBy: order)
        }
        func search(_ columns: Int, _ prefixes: [Int]) -> FullTextSearch {
            let columns = (1...columns).map { DerivedTableDefinition.Column("column\($0)") }
            return FullTextSearch("a", version: 1, of: "item", columns: columns, prefixes: prefixes)
        }
        #expect(parts(view("a", nil, []), view("a", nil, [])) == [])
        #expect(
            parts(view("a", "box", []), view("b", nil, [.descending("size")])) == [
                "groupedBy: none in the database, 'box' in this program",
                "of: 'b' in the database, 'a' in this program",
                #"sortedBy: '[{"expression":"size","isDescending":true}]' in the database, '[]' in this program"#,
            ]
        )
        #expect(
            parts(search(1, []), search(9, [2])) == [
                "columns", "prefixes: '[2]' in the database, '[]' in this program",
            ]
        )
        let kinds = parts(Self.sums(), Self.fields)
        #expect(kinds.contains("kind: 'index' in the database, 'aggregate' in this program"), "\(kinds)")
        for garbage in ["", "[1]", "no JSON", "{"] {
            #expect(DerivedTableDifference.DefinitionPart.differing("{}", garbage) == [])
        }
    }

    /// A program that only reads gets the error as well.
    @Test func anotherDefinitionInUse() throws {
        let db = try fixture.open([Self.sums()])
        let error = #expect(throws: DerivedTableError.self) {
            try db.read { try Self.sums(where: "size > 0").totals(in: $0) }
        }
        #expect(error?.description.contains("(where: none in the database, 'size > 0' in this program)") == true)
        try db.write { try $0.execute(sql: "UPDATE roundtable_extensions SET configuration = '?'") }
        let other = #expect(throws: DerivedTableError.self) {
            try db.read { try Self.sums(where: "size > 0").totals(in: $0) }
        }
        let stored = Self.sums().definition.fingerprint
        #expect(other?.description.contains("(\(stored) in the database, ") == true)
    }

    /// **Rule E4**: a program that may not write leaves nothing behind.
    @Test func aRefusedProgramWritesNothing() throws {
        try fixture.open([Self.sums()]).close()
        let queue = try fixture.stranger()
        let before = try queue.read { try Int.fetchOne($0, sql: "PRAGMA schema_version") }
        var migrator = DerivedTableWorld.migrator()
        migrator.registerMigration("v2") { try $0.execute(sql: "CREATE TABLE more (id)") }
        #expect(difference { _ = try fixture.open([Self.fields], migrator: migrator) }?.kind == "differs")
        #expect(try queue.read { try Int.fetchOne($0, sql: "PRAGMA schema_version") } == before)
        #expect(try queue.read { try $0.tableExists("more") } == false)
    }

    /// **Rules E5, E6**
    @Test func anUpgradeDropsAndBuilds() throws {
        let first = try fixture.open([Self.sums(), Self.fields])
        try insertItems(2500, first)
        try first.close()
        let progress = Shared<[DerivedTableProgress]>([])
        let second = try fixture.open([Self.sums(version: 2), DerivedTableWorld.words], revision: 2) { options in
            options.probe { (event: DerivedTableEvent) in
                if case .progress(let step) = event { progress.change { $0.append(step) } }
            }
        }
        #expect(Set(progress.value.map(\.name)) == ["sums", "words"])
        #expect(progress.value.last?.isComplete == true && progress.value.allSatisfy { $0.done <= $0.total })
        try second.read { db in
            #expect(try Self.sums(version: 2).total(of: ["a"], in: db)?.count == 1250)
            #expect(try DerivedTableWorld.words.count(matching: "n", in: db) == 2500)
            let names = try String.fetchAll(
                db,
                sql: "SELECT name FROM sqlite_master WHERE name LIKE '%fields%' OR name LIKE '%building%'"
            )
            #expect(names == [])
        }
    }

    /// **Rule E6**: building continues where it stopped, and what is written meanwhile is derived.
    @Test func buildingContinues() throws {
        let plain = try fixture.open([])
        try insertItems(5000, plain)
        try plain.close()
        // The state is as if the program had died after the upgrade.
        let described = try DerivedTableRegistry(DerivedTableSet(revision: 1, [Self.sums()]))
        let sums = described.derivedTables[0]
        let queue = try fixture.stranger()
        try queue.write { db in
            try described.upgrade(db)
            #expect(try StoredDerivedTable.fetch(db, "sums")?.done == 0)
            var pace = BuildingPace()
            while try StoredDerivedTable.fetch(db, "sums")?.done ?? 0 < 500 {
                _ = try described.build(sums, &pace, until: 0, db)
            }
        }
        let stored = try #require(try queue.read { try StoredDerivedTable.fetch($0, "sums") })
        #expect(stored.state == .building && (500...1500).contains(stored.done) && stored.total == stored.done)
        #expect(
            throws: DerivedTableError.building(path: queue.path, name: "sums", done: stored.done, total: stored.total)
        ) {
            try queue.read { try Self.sums().totals(in: $0) }
        }
        try expect(.building, .unfinishedDerivedTable)
        // Before and after the place where building is.
        try queue.write {
            try $0.execute(
                sql: "UPDATE item SET size = 0, id = id + 10000 WHERE id % 10 = 0; DELETE FROM item WHERE id = 4999"
            )
        }
        let rows = Shared(0)
        let totals = Shared<[Int]>([])
        let db = try fixture.open([Self.sums()]) { options in
            options.probe { (event: DerivedTableEvent) in
                guard case .progress(let step) = event else { return }
                rows.change { $0 = step.done }
                totals.change { $0.append(step.total) }
            }
        }
        #expect(rows.value >= 3500)
        #expect(totals.value.allSatisfy { (4999...5100).contains($0) }, "\(totals.value)")
        let expected = try db.read {
            try Row.fetchAll($0, sql: "SELECT box, count(*), sum(size), count(size) FROM item GROUP BY 1 ORDER BY 1")
        }
        let found = try db.read { try Self.sums().totals(in: $0) }
        #expect(
            found.map { [$0.group[0], $0.count.databaseValue, $0.sum("size")!, $0.counts["size"]!.databaseValue] }
                == expected.map { Array($0.databaseValues) }
        )
    }

    /// **Rule E7**: a migration recreates the table, and another one removes what is needed.
    @Test func migrations() throws {
        let db = try fixture.open([Self.sums()])
        try insertItems(10, db)
        try db.close()
        var migrator = DerivedTableWorld.migrator()
        migrator.registerMigration("recreate") { db in
            try db.execute(
                sql: """
                    CREATE TABLE new_item (id INTEGER PRIMARY KEY, name TEXT, size INTEGER, box TEXT, code TEXT UNIQUE);
                    INSERT INTO new_item (id, name, size, box) SELECT id, name, size * 2, box FROM item;
                    DROP TABLE item;
                    ALTER TABLE new_item RENAME TO item;
                    """
            )
        }
        let second = try fixture.open([Self.sums()], migrator: migrator)
        #expect(try second.read { try Self.sums().total(of: ["a"], in: $0)?.sum("size", as: Int.self) } == 60)
        try second.write { try $0.execute(sql: "UPDATE item SET size = 0") }
        #expect(try second.read { try Self.sums().total(of: ["a"], in: $0)?.sum("size", as: Int.self) } == 0)
        try second.close()
        migrator.registerMigration("drop") { try $0.execute(sql: "DROP TABLE item") }
        let third = try fixture.open([Self.sums()], migrator: migrator)
        #expect(throws: DerivedTableError.baseTableMissing(path: third.path, name: "sums", table: "item")) {
            try third.read { try Self.sums().totals(in: $0) }
        }
        try expect(.baseTableMissing, .brokenDerivedTable)
    }

    /// What is seen from outside.
    private func expect(_ state: DerivedTablesStatus.Table.State, _ topic: DatabaseDiagnosis.Topic?) throws {
        let status = try #require(try DatabaseStatus(ofDatabaseAt: fixture.url).derivedTables)
        #expect(status.tables.map(\.name) == ["sums"] && status.tables[0].state == state)
        let topics = try DatabaseDiagnosis(ofDatabaseAt: fixture.url).findings.map(\.topic)
        #expect(
            topics.filter { $0 == .unfinishedDerivedTable || $0 == .brokenDerivedTable } == [topic].compactMap { $0 }
        )
    }

    /// **Rule E7**: while it is open, another program takes the triggers away.
    @Test func triggersAreDropped() async throws {
        let events = Shared<[String]>([])
        let db = try fixture.open([Self.sums()]) { options in
            options.probe { (event: DerivedTableEvent) in
                if case .rebuilding(let names) = event { events.change { $0 += names } }
            }
        }
        let stranger = try fixture.stranger()
        try await stranger.write { db in
            try db.execute(
                sql:
                    "DROP TRIGGER roundtable_ext_sums__insert; INSERT INTO item (id, box, name, size) VALUES (1, 'a', 'n', 5)"
            )
        }
        try expect(.triggersMissing, .brokenDerivedTable)
        try await db.write { try $0.execute(sql: "INSERT INTO item (id, box, name, size) VALUES (2, 'a', 'n', 6)") }
        try await eventually("it is rebuilt") {
            (try? await db.read { try Self.sums().total(of: ["a"], in: $0)?.sum("size", as: Int.self) }) == 11
        }
        // On another thread, and not before it is done.
        try await eventually("it is reported") { events.value == ["sums"] }
        try expect(.ready, nil)
        // A younger trigger that ends statements fires after those of the derived table.
        try await stranger.write { db in
            try db.execute(
                sql: """
                    CREATE TRIGGER ends AFTER INSERT ON item WHEN new.size = 99 BEGIN SELECT RAISE(IGNORE); END;
                    INSERT INTO item (id, box, name, size) VALUES (3, 'a', 'n', 99);
                    """
            )
        }
        try await db.write { try $0.execute(sql: "INSERT INTO item (id, box, name, size) VALUES (4, 'a', 'n', 99)") }
        try await eventually("it is rebuilt") {
            (try? await db.read { try Self.sums().total(of: ["a"], in: $0)?.sum("size", as: Int.self) }) == 209
        }
    }

    /// **Rule E3**: what a program cannot compute, it cannot write.
    @Test func functions() throws {
        let index = DerivedTableFixture.twice()
        let db = try fixture.open([index])
        try insertItems(3, db)
        #expect(try db.read { try index.count(in: $0, where: "double = 4") } == 1)
        let stranger = try fixture.stranger()
        let error = #expect(throws: DatabaseError.self) {
            try stranger.write { try $0.execute(sql: "UPDATE item SET size = 9 WHERE id = 1") }
        }
        #expect(error?.message?.contains("twice") == true)
        #expect(try stranger.read { try Int.fetchOne($0, sql: "SELECT size FROM item WHERE id = 1") } == 1)
        // SQLite compiles all triggers of an update, also of columns that no expression names.
        #expect(throws: DatabaseError.self) {
            try stranger.write { try $0.execute(sql: "UPDATE item SET box = 'z' WHERE id = 1") }
        }
    }

    @Test(arguments: [
        ("no__name", "item", "size"), ("", "item", "size"), ("é", "item", "size"), ("a", "nothing", "size"),
        ("a", "item", "nothing"), ("a", "item", "random()"), ("a", "item", "(SELECT 1)"), ("a", "item", "?1"),
        ("a", "item", "size; DROP TABLE item"), ("a", "roundtable_extensions", "name"), ("a", "sqlite_master", "name"),
    ])
    func notUsable(name: String, table: String, expression: String) throws {
        let index = SecondaryIndex(name, version: 1, of: table, fields: [.init("field", expression)])
        let error = #expect(throws: DerivedTableError.self) { try fixture.open([index]) }
        guard case .notUsable = error else { return #expect(Bool(false), "\(String(describing: error))") }
        let queue = try fixture.stranger()
        #expect(try queue.read { try $0.tableExists("roundtable_extensions") } == false)
    }

    @Test(arguments: ["city", "", ".city", "$city", "$.", "$[", "$.a..b"]) func noPath(path: String) throws {
        let plain = try fixture.open([])
        try plain.write { db in
            try db.execute(sql: "INSERT INTO item (id, box, name, size) VALUES (1, 'a', 'n', 1)")
        }
        try plain.close()
        let index = SecondaryIndex("places", version: 1, of: "item", fields: [.json("place", in: "name", at: path)])
        let error = #expect(throws: DerivedTableError.self) { try fixture.open([index]) }
        guard case .notUsable("places", let reason) = error else {
            return #expect(Bool(false), "\(String(describing: error))")
        }
        #expect(reason.contains("'\(path)'") && reason.contains("'place'") && reason.contains("'$.address.city'"))
        let queue = try fixture.stranger()
        #expect(try queue.read { try $0.tableExists("roundtable_extensions") } == false)
    }

    /// Whatever the row has there, or has not.
    @Test(arguments: ["$", "$.a", "$.a[0].b", "$[0]", "$[#]", "$[#-1]", "$.a[#-1]", "$.\"a.b\"", "$.é"])
    func paths(path: String) throws {
        let index = SecondaryIndex("places", version: 1, of: "item", fields: [.json("place", in: "name", at: path)])
        let db = try fixture.open([index])
        try db.write { db in
            for (id, text) in ["no JSON", "{}", "[[]]", #"{"a": [{"b": 1}]}"#, #""text""#, "null"].enumerated() {
                let sql = "INSERT INTO item (id, box, name, size) VALUES (?, 'a', ?, 1)"
                try db.execute(sql: sql, arguments: [id, text])
            }
            #expect(try index.count(in: db) == 6)
        }
    }

    @Test func oneNameTwice() throws {
        #expect(throws: DerivedTableError.self) { try fixture.open([Self.sums(), Self.sums(version: 2)]) }
    }
}
