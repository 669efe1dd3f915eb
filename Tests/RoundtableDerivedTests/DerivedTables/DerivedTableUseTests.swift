import Foundation
import GRDB
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDerived

/// What programs ask derived tables for.
@Suite struct DerivedTableUseTests {
    private struct Message: Codable, FetchableRecord, PersistableRecord, Equatable {
        var id: Int64
        var box: String?
        var date: Int
        var text: String
        var place: [String: String]
    }

    private static let inbox = MaterializedView(
        "inbox",
        version: 1,
        of: "message",
        groupedBy: "box",
        sortedBy: [.descending("date")]
    )
    private static let places = SecondaryIndex(
        "places",
        version: 1,
        of: "message",
        fields: [.json("city", in: "place", at: "$.city")]
    )
    private static let words = FullTextSearch(
        "words",
        version: 1,
        of: "message",
        columns: [.init("text")],
        prefixes: [2]
    )
    private static let dates = AggregateTable(
        "dates",
        version: 1,
        of: "message",
        groupedBy: [.init("box")],
        values: [.init("date")]
    )

    private let fixture: DerivedTableFixture
    private let db: SharedDatabase
    private let migrator: DatabaseMigrator

    init() throws {
        fixture = try DerivedTableFixture()
        var migrator = DatabaseMigrator()
        migrator.registerMigration("v1") { db in
            try db.execute(
                sql: "CREATE TABLE message (id INTEGER PRIMARY KEY, box TEXT, date INTEGER, text TEXT, place TEXT)"
            )
        }
        self.migrator = migrator
        db = try fixture.open([Self.inbox, Self.places, Self.words, Self.dates], migrator: migrator)
        try db.write { db in
            for id in 1...10 {
                let box = ["even", "odd"][Int(id) % 2]
                let place = ["city": id < 4 ? "Oslo" : "Rome"]
                let text = id == 7 ? "a round table" : "words"
                try Message(id: Int64(id), box: box, date: id * 10, text: text, place: place).insert(db)
            }
            try Message(id: 11, box: nil, date: 0, text: "in no box", place: [:]).insert(db)
        }
    }

    @Test func views() throws {
        try db.read { db in
            #expect(try Self.inbox.groups(in: db).map { "\($0.group) \($0.count)" } == ["\"even\" 5", "\"odd\" 5"])
            #expect(try Self.inbox.count(in: db, group: "odd") == 5)
            #expect(try Self.inbox.count(in: db, group: "none") == 0)
            let page = try Self.inbox.rows(Message.self, in: db, group: "odd", limit: 2, offset: 1)
            #expect(page.map(\.id) == [7, 5])
            #expect(try Self.inbox.rows(Message.self, in: db, group: "even").map(\.id) == [10, 8, 6, 4, 2])
            #expect(try Self.inbox.keys(in: db, group: "even", limit: 1).map(\.integer) == [10])
        }
    }

    /// The log of a view, from which changes are reported, does not grow without bound, however its changes come.
    @Test(arguments: [0, 1]) func theLogIsShort(afterInserting count: Int) throws {
        try db.write { db in
            for id in 0..<count {
                try Message(id: 100 + Int64(id), box: "odd", date: 0, text: "", place: [:]).insert(db)
            }
            // Two changes of the log for each.
            let update = try db.makeStatement(sql: "UPDATE message SET date = ? WHERE id = 1")
            for round in 1...MaterializedView.logLength { try update.execute(arguments: [round]) }
        }
        let sql = "SELECT count(*) FROM \(Self.inbox.tableName)__log"
        let length = try db.read { db in try Int.fetchOne(db, sql: sql) ?? 0 }
        #expect((MaterializedView.logLength...(MaterializedView.logLength + 70)).contains(length))
    }

    @Test func indexesAndWords() throws {
        try db.read { db in
            let oslo = try Self.places.rows(
                Message.self,
                in: db,
                where: "city = ?",
                arguments: ["Oslo"],
                orderedBy: "date DESC",
                limit: 2
            )
            #expect(oslo.map(\.id) == [3, 2])
            #expect(try Self.places.count(in: db, where: "city IS NULL") == 1)
            #expect(try Self.words.rows(Message.self, in: db, matching: "round AND ta*").map(\.id) == [7])
            let match = try #require(try Self.words.matches("table", in: db).first)
            #expect(match.key == [7.databaseValue] && match.snippet == "a round <b>table</b>")
            #expect(throws: DatabaseError.self) { try Self.words.count(matching: "AND (", in: db) }
        }
    }

    /// SQLite connects the table of words when the first statement is compiled whose triggers name it: that is no change of the schema.
    @Test(.timeLimit(.minutes(1))) func writesAreReportedByTable() async throws {
        try db.close()
        let second = try fixture.open([Self.inbox, Self.places, Self.words, Self.dates], migrator: migrator)
        var changes = second.changes(in: Table("message")).makeAsyncIterator()
        for id in 20...22 {
            try await second.write { db in
                try Message(id: Int64(id), box: "odd", date: 0, text: "words", place: [:]).insert(db)
            }
            let change = try #require(try await changes.next())
            #expect(change.tableNames == ["message"], "\(change)")
            #expect(change.tables.derivedTables.contains(Self.inbox.tableName), "\(change)")
            #expect(
                change.tables.description == "message, and derived tables"
                    && "\(change)".hasSuffix(": \(change.tables)")
            )
        }
    }

    /// The steps of building write no table of the user's.
    @Test(.timeLimit(.minutes(1))) func buildingIsReported() async throws {
        let fixture = try DerivedTableFixture()
        let first = try fixture.open([], migrator: migrator)
        try await first.write { db in
            let statement = try db.makeStatement(sql: "INSERT INTO message (id, box, date) VALUES (?, 'odd', 0)")
            for id in 1...30_000 { try statement.execute(arguments: [id]) }
        }
        var changes = first.changes().makeAsyncIterator()
        let second = try fixture.open([Self.dates], migrator: migrator, as: "second")
        var change = try #require(try await changes.next())
        // The tables are made, which is a change of the schema.
        while change.tables == .fullDatabase { change = try #require(try await changes.next()) }
        #expect(change.author == "second" && change.tables.description == "derived tables (dates)", "\(change)")
        try second.close()
    }

    @Test func countsAndSums() throws {
        try db.read { db in
            #expect(try Self.dates.totals(in: db).map(\.count) == [1, 5, 5])
            let odd = try #require(try Self.dates.total(of: ["odd"], in: db))
            #expect(odd.sum("date", as: Int.self) == 250 && odd.average("date") == 50)
            let range = try #require(try Self.dates.range(of: "date", group: ["odd"], in: db, as: Int.self))
            #expect(range == (10, 90))
            #expect(try Self.dates.total(of: [nil], in: db)?.count == 1)
            #expect(try Self.dates.total(of: ["none"], in: db) == nil)
        }
    }

    /// A participant writes, and a program that knows nothing of Roundtable.
    @Test(.timeLimit(.minutes(1))) func updatesOfAView() async throws {
        let stranger = try fixture.stranger()
        var updates = Self.inbox.updates(in: db, limit: 3).makeAsyncIterator()
        let first = try #require(try await updates.next())
        #expect(first.changes.isEmpty && first.contents.groups.map(\.keys.count) == [3, 3])
        var shown = first.contents.groups
        for (isStrange, sql) in [
            (false, "UPDATE message SET date = 1000 WHERE id = 6"), (true, "DELETE FROM message WHERE id = 9"),
            (false, "UPDATE message SET text = 'other' WHERE id = 10"),
            (true, "UPDATE message SET box = 'new' WHERE id = 7"),
        ] {
            if isStrange {
                try await stranger.write { try $0.execute(sql: sql) }
            } else {
                try await db.write { try $0.execute(sql: sql) }
            }
            let update = try #require(try await updates.next())
            #expect(!update.changes.isEmpty)
            #expect(update.changes.applied(to: shown, giving: update.contents.groups) == update.contents.groups)
            shown = update.contents.groups
            #expect(try await db.read { try Self.inbox.contents(in: $0, limit: 3).groups } == shown)
        }
        #expect(shown.map { $0.keys.compactMap(\.integer) } == [[6, 10, 8], [7], [5, 3, 1]])
    }
}
