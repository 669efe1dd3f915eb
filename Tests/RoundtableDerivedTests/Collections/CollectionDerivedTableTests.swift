import Foundation
import GRDB
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDerived

/// Derived tables of a collection: from its table, as of any other.
@Suite struct CollectionDerivedTableTests {
    private static let people = KeyValueCollection("people", of: Person.self, by: String.self, metadata: Stamp.self)
    private static let byCity = MaterializedView(
        "byCity",
        version: 1,
        of: people.table,
        groupedBy: people.field("address", "city"),
        sortedBy: [.descending(people.field("name"))]
    )
    private static let cities = SecondaryIndex(
        "cities",
        version: 1,
        of: people.table,
        fields: [
            .init("city", people.field("address", "city")), .init("current", people.field("address", "isCurrent")),
            .init("tag", people.field("tags")), .init("version", people.metadataField("version")),
        ]
    )
    private static let names = FullTextSearch(
        "names",
        version: 1,
        of: people.table,
        columns: [.init("name", people.field("name"))]
    )
    private static let counts = AggregateTable(
        "counts",
        version: 1,
        of: people.table,
        groupedBy: [.init("city", people.field("address", "city"))],
        values: [.init("version", people.metadataField("version"))]
    )

    @Test func allOfThem() throws {
        let (people, fixture) = (Self.people, try DerivedTableFixture())
        var migrator = DatabaseMigrator()
        migrator.registerMigration("people") { db in try db.create(collection: people) }
        let db = try fixture.open([Self.byCity, Self.cities, Self.names, Self.counts], migrator: migrator)
        try db.write { (db) throws in
            for (key, name, city) in [
                ("a", "Arthur the King", "Camelot"), ("b", "Bors", "Gaunes"), ("c", "Merlin", "Camelot"),
                ("d", "Nobody", nil),
            ] {
                let address = city.map { Person.Address(city: $0, isCurrent: key != "c") }
                try people.set(Person(name: name, address: address), metadata: Stamp(version: 10), for: key, in: db)
            }
            try people.set(metadata: Stamp(version: 5), for: "c", in: db)
        }
        func names(_ rows: [CollectionRow]) throws -> [String] { try people.entries(of: rows).map(\.value.name) }
        try db.read { (db) throws in
            #expect(try names(Self.byCity.rows(in: db, group: "Camelot", limit: 10)) == ["Merlin", "Arthur the King"])
            #expect(try Self.byCity.groups(in: db).map(\.count) == [2, 1])
            #expect(
                try names(Self.cities.rows(in: db, where: "city = ? AND current", arguments: ["Camelot"])) == [
                    "Arthur the King"
                ]
            )
            #expect(try names(Self.cities.rows(in: db, where: "version < 10")) == ["Merlin"])
            let entry = try #require(people.entries(of: Self.names.rows(in: db, matching: "king")).first)
            #expect(entry.key == "a" && entry.metadata == Stamp(version: 10))
            #expect(try Self.counts.total(of: ["Camelot"], in: db)?.sum("version") == 15)
        }
        // The table follows any writer, and any statement.
        try fixture.stranger().write { (db) throws in
            try db.execute(
                sql: "UPDATE collection_people SET value = json_set(value, '$.address.city', 'Gaunes') WHERE key = 'a'"
            )
            try db.execute(sql: "DELETE FROM collection_people WHERE key = 'b'")
        }
        try db.read { (db) throws in
            #expect(try names(Self.byCity.rows(in: db, group: "Gaunes", limit: 10)) == ["Arthur the King"])
            #expect(try Self.counts.total(of: ["Camelot"], in: db)?.count == 1)
            #expect(try people.get("a", in: db)?.address?.city == "Gaunes")
        }
    }

    @Test func fieldsAreQuoted() throws {
        let odd = KeyValueCollection("odd", of: [String: Int].self, by: Int.self)
        let queue = try DatabaseQueue()
        try queue.write { (db) throws in
            try db.create(collection: odd)
            for name in ["it's", "a.b", "a b", "[0]", "$", "é", "#"] {
                try odd.set([name: 7], for: 1, in: db)
                #expect(try Int.fetchOne(db, sql: "SELECT \(odd.field(name)) FROM collection_odd") == 7, "\(name)")
            }
            #expect(try Int.fetchOne(db, sql: "SELECT \(odd.field("x", "y")) FROM collection_odd") == nil)
            try db.execute(sql: "UPDATE collection_odd SET value = 'no JSON'")
            #expect(try Int.fetchOne(db, sql: "SELECT \(odd.field("#")) FROM collection_odd") == nil)
        }
    }
}
