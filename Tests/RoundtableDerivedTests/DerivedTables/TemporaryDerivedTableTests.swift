import Foundation
import GRDB
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDerived

/// Derived tables of one process alone say what shared ones say (rule E9).
@Suite struct TemporaryDerivedTableTests {
    private struct Item: Codable, FetchableRecord, PersistableRecord, Equatable {
        var id: Int64
        var box: String?
        var size: Int
        var text: String
    }

    /// The four kinds of derived tables, each under its own name.
    private struct Four {
        let view: MaterializedView
        let index: SecondaryIndex
        let words: FullTextSearch
        let sums: AggregateTable

        init(_ prefix: String) {
            view = MaterializedView(
                "\(prefix)view",
                version: 1,
                of: "item",
                where: "size >= 0",
                groupedBy: "box",
                sortedBy: [.descending("size")]
            )
            index = SecondaryIndex("\(prefix)index", version: 1, of: "item", fields: [.init("half", "size / 2")])
            words = FullTextSearch("\(prefix)words", version: 1, of: "item", columns: [.init("text")])
            sums = AggregateTable(
                "\(prefix)sums",
                version: 1,
                of: "item",
                groupedBy: [.init("box")],
                values: [.init("size")]
            )
        }

        var all: [any DerivedTable] { [view, index, words, sums] }

        /// What they say, in words.
        func answers(_ db: Database) throws -> [String] {
            var answers = ["groups: \(try view.groups(in: db).map { "\($0.group) \($0.count)" })"]
            for box in ["a", "b"] {
                answers.append("view \(box): \(try view.rows(Item.self, in: db, group: box).map(\.id))")
                answers.append(
                    "range \(box): \(String(describing: try sums.range(of: "size", group: [box], in: db, as: Int.self)))"
                )
            }
            answers.append(
                "index: \(try index.rows(Item.self, in: db, where: "half > 20", orderedBy: "half, id").map(\.id))"
            )
            answers.append("words: \(try words.rows(Item.self, in: db, matching: "seven").map(\.id).sorted())")
            let totals = try sums.totals(in: db).map { "\($0.group) \($0.count) \($0.sum("size", as: Int.self) ?? 0)" }
            answers.append("sums: \(totals)")
            return answers
        }
    }

    private static let shared = Four("shared_")
    private static let own = Four("own_")

    private let fixture: DerivedTableFixture
    private let migrator: DatabaseMigrator
    private let writer: SharedDatabase

    init() throws {
        fixture = try DerivedTableFixture()
        var migrator = DatabaseMigrator()
        migrator.registerMigration("v1") { db in
            try db.execute(sql: "CREATE TABLE item (id INTEGER PRIMARY KEY, box TEXT, size INTEGER, text TEXT)")
        }
        self.migrator = migrator
        writer = try fixture.open(Self.shared.all, migrator: migrator)
        try writer.write { db in for id in 1...40 { try Self.random(Int64(id)).insert(db) } }
    }

    private static func random(_ id: Int64) -> Item {
        let words = ["one", "seven", "nine"]
        return Item(id: id, box: ["a", "b", nil][Int(id % 3)], size: Int(id * 7 % 100) - 5, text: words[Int(id % 3)])
    }

    private func expectAgreement(_ db: Database) throws {
        #expect(try Self.own.answers(db) == Self.shared.answers(db))
    }

    private func openReader(_ derivedTables: [any DerivedTable] = Self.own.all) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        options.temporaryDerivedTables = derivedTables
        let schema = SharedSchema(migrator, derivedTables: DerivedTableSet(revision: 1, Self.shared.all))
        let answer = try SharedDatabase.openReadOnly(at: fixture.url, schema: schema, as: "widget", options: options)
        guard case .available(let database) = answer else { throw DerivedTableError.notRegistered(path: "", name: "") }
        return database
    }

    @Test func aReadOnlyProcess() throws {
        let reader = try openReader()
        var random = SeededGenerator()
        for round in 1...20 {
            try reader.read { db in
                let answers = try Self.own.answers(db)
                #expect(try answers == Self.shared.answers(db), "round \(round)")
                // Once derived, they are not derived again.
                let before = try Self.own.view.stored(db).identity
                #expect(try Self.own.view.stored(db).identity == before)
            }
            let (id, size) = (Int64.random(in: 1...60, using: &random), Int.random(in: -10...90, using: &random))
            try writer.write { db in
                if size % 3 == 0 {
                    try db.execute(sql: "DELETE FROM item WHERE id = ?", arguments: [id])
                } else {
                    try Item(id: id, box: size % 2 == 0 ? "a" : "b", size: size, text: "seven").save(db)
                }
            }
        }
        let exists = try writer.read { db in try db.tableExists(Self.own.view.tableName) }
        #expect(!exists)
    }

    /// What the transaction that asks has written counts; what was rolled back does not.
    @Test func withinWriteTransactions() throws {
        try writer.close()
        let db = try fixture.open(Self.shared.all, migrator: migrator) { $0.temporaryDerivedTables = Self.own.all }
        struct Stop: Error {}
        for isKept in [true, false, true] {
            try? db.write { db in
                try expectAgreement(db)
                let seven = try Self.own.words.count(matching: "seven", in: db)
                try db.execute(
                    sql: "UPDATE item SET size = size + 1, text = 'seven' WHERE id = (SELECT max(id) FROM item)"
                )
                try db.execute(sql: "INSERT INTO item (box, size, text) VALUES ('a', 50, 'seven')")
                #expect(try Self.own.words.count(matching: "seven", in: db) > seven)
                try expectAgreement(db)
                if !isKept { throw Stop() }
            }
            try db.read(expectAgreement)
            try db.writeWithoutTransaction(expectAgreement)
        }
    }

    @Test func snapshots() throws {
        let reader = try openReader()
        let snapshot = try reader.makeSnapshot()
        let before = try snapshot.read { db in try Self.own.answers(db) }
        try writer.write { db in try db.execute(sql: "DELETE FROM item WHERE id % 2 = 0") }
        #expect(try snapshot.read { db in try Self.own.answers(db) } == before)
        #expect(try reader.read { db in try Self.own.answers(db) } != before)
        try snapshot.advance()
        try snapshot.read(expectAgreement)
    }

    @Test(.timeLimit(.minutes(1))) func observing() async throws {
        let reader = try openReader()
        var updates = Self.own.view.updates(in: reader).makeAsyncIterator()
        let first = try #require(try await updates.next())
        try await writer.write { db in try db.execute(sql: "UPDATE item SET size = 99 WHERE id = 6") }
        let second = try #require(try await updates.next())
        #expect(
            second.changes.applied(to: first.contents.groups, giving: second.contents.groups) == second.contents.groups
        )
        #expect(second.contents.groups.map(\.name) == ["a".databaseValue, "b".databaseValue])
        #expect(second.contents.groups[0].keys.first?.integer == 6)
        var counts = ValueObservation.tracking { db in try Self.own.words.count(matching: "seven", in: db) }
            .values(in: reader).makeAsyncIterator()
        let count = try #require(try await counts.next())
        try await writer.write { db in try db.execute(sql: "UPDATE item SET text = 'seven'") }
        var now = count
        while now == count { now = try #require(try await counts.next()) }
        #expect(now == 40)
    }

    @Test func whatCannotBe() throws {
        let both = DerivedTableError.notUsable(name: "shared_view", reason: "it is declared in the SharedSchema, too.")
        #expect(throws: both) { _ = try openReader([Self.shared.view]) }
        let reader = try openReader([Self.own.view])
        let path = reader.path
        try reader.read { db in
            #expect(throws: DerivedTableError.notRegistered(path: path, name: "own_words")) {
                try Self.own.words.count(matching: "seven", in: db)
            }
            let other = MaterializedView("own_view", version: 1, of: "item")
            #expect(throws: DerivedTableError.self) { try other.groups(in: db) }
        }
        let broken = SecondaryIndex("broken", version: 1, of: "item", fields: [.init("other", "weight + 1")])
        let second = try openReader([broken])
        let error = #expect(throws: DerivedTableError.self) { try second.read { db in _ = try broken.count(in: db) } }
        #expect(error.map(String.init(describing:))?.contains("weight") == true)
        // Reading continues, and a schema change is noticed.
        try writer.write { db in try db.execute(sql: "ALTER TABLE item ADD COLUMN weight INTEGER") }
        #expect(try second.read { db in try broken.count(in: db) } == 40)
    }
}
