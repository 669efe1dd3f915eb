import Foundation
import GRDB
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDerived
@testable import RoundtableGate

struct Person: Codable, Sendable, Equatable {
    var name: String
    var born: Date?
    var address: Address?
    var tags: [String] = []

    struct Address: Codable, Sendable, Equatable {
        var city: String
        var isCurrent = true
    }
}

struct Stamp: Codable, Sendable, Equatable {
    var version: Int
}

/// Values by key, in the same transactions as SQL.
@Suite struct CollectionTests {
    private static let people = KeyValueCollection("people", of: Person.self, by: String.self, metadata: Stamp.self)

    private let folder: TemporaryFolder
    private let url: URL
    private let db: SharedDatabase

    private var people: KeyValueCollection<String, Person, Stamp> { Self.people }

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("db.sqlite")
        db = try Self.open(url, "app")
    }

    private static func open(_ url: URL, _ author: String) throws -> SharedDatabase {
        var migrator = migrator()
        migrator.registerMigration("people") { db in try db.create(collection: people) }
        return try SharedDatabase.open(at: url, schema: SharedSchema(migrator), as: author)
    }

    private func person(_ name: String, _ city: String? = nil) -> Person {
        Person(name: name, address: city.map { Person.Address(city: $0) })
    }

    @Test func valuesAndMetadata() throws {
        try db.write { (db) throws in
            #expect(try people.get("a", in: db) == nil && !people.contains("a", in: db))
            #expect(try people.set(person("Arthur"), for: "a", in: db))
            #expect(try people.set(metadata: Stamp(version: 1), for: "a", in: db))
            #expect(try people.set(person("Art"), for: "a", in: db))
            #expect(try people.entry("a", in: db) == .init(key: "a", value: person("Art"), metadata: Stamp(version: 1)))
            #expect(try people.set(person("Art"), metadata: nil, for: "a", in: db))
            #expect(try people.metadata(for: "a", in: db) == nil && people.get("a", in: db) == person("Art"))
            #expect(try people.set(person("Bors"), metadata: Stamp(version: 2), for: "b", in: db))
            #expect(try !people.set(metadata: Stamp(version: 3), for: "c", in: db))
            let many = try people.getMany(["a", "b", "c", "a"], in: db)
            #expect(many.map(\.key) == ["a", "b", "a"] && many.map(\.value.name) == ["Art", "Bors", "Art"])
            #expect(try people.metadata(for: "b", in: db) == Stamp(version: 2))
            #expect(try people.count(in: db) == 2 && people.contains("b", in: db))
            #expect(try people.remove("a", in: db) && !people.remove("a", in: db))
            #expect(try people.remove(["b", "x"], in: db) == 1)
            #expect(try people.count(in: db) == 0 && people.entry("b", in: db) == nil)
        }
    }

    @Test func keysInOrder() throws {
        try db.write { (db) throws in
            for key in ["b", "é", "", "a", "B", "aa", "日本"] { try people.set(person(key), for: key, in: db) }
            let order = ["", "B", "a", "aa", "b", "é", "日本"]
            #expect(try people.keys(in: db) == order)
            #expect(try people.keys(descending: true, limit: 2, in: db) == ["日本", "é"])
            #expect(try people.keys(.from("a"), in: db) == Array(order[2...]))
            #expect(try people.keys(.after("a"), in: db) == Array(order[3...]))
            #expect(try people.keys(.before("a"), in: db) == ["", "B"])
            #expect(try people.keys(.from("B", through: "b"), in: db) == ["B", "a", "aa", "b"])
            #expect(try people.count(.from("B", before: "b"), in: db) == 3)
            let entries = try people.entries(.from("b"), in: db)
            #expect(try entries.next()?.value == person("b"))
            #expect(try entries.next()?.key == "é")
            #expect(try people.removeAll(.from("B", before: "b"), in: db) == 3)
            for body in [
                { try people.set(person("x"), for: "b\0c", in: db) }, { try people.contains("b\0c", in: db) },
                { try people.removeAll(.before("b\0c"), in: db) > 0 },
            ] as [() throws -> Bool] {
                let error = #expect(throws: CollectionError.self) { try body() }
                #expect(error?.description.contains("it contains a NUL") == true)
            }
            #expect(try people.removeAll(in: db) == 4 && people.keys(in: db) == [])
        }
    }

    /// The cursor reads one at a time: it fails when it reaches what is wrong, and names it.
    @Test func whatCannotBeDecoded() throws {
        try db.write { (db) throws in
            for key in ["a", "b"] { try people.set(person(key), metadata: Stamp(version: 1), for: key, in: db) }
            try db.execute(
                sql:
                    #"UPDATE collection_people SET value = '{"name": "x", "tags": [], "address": {}}', metadata = '7' WHERE key = 'b'"#
            )
            func message(_ body: () throws -> Void) -> String {
                let error = #expect(throws: CollectionError.self) { try body() }
                return error?.description ?? ""
            }
            let entries = try people.entries(in: db)
            #expect(try entries.next()?.key == "a")
            let text = message { _ = try entries.next() }
            #expect(
                text.hasPrefix("collection 'people', key b: its value cannot be read: 'address.city' is missing."),
                "\(text)"
            )
            #expect(message { _ = try people.get("b", in: db) } == text)
            #expect(
                message { _ = try people.metadata(for: "b", in: db) }.contains("key b: its metadata cannot be read")
            )
            try db.execute(sql: "UPDATE collection_people SET value = 'no JSON' WHERE key = 'b'")
            #expect(message { _ = try people.get("b", in: db) }.contains("its value cannot be read"))
            let numbers = KeyValueCollection("numbers", of: Double.self, by: Int.self)
            try db.create(collection: numbers)
            let refused = message { try numbers.set(.nan, for: 7, in: db) }
            #expect(refused.hasPrefix("collection 'numbers', key 7: its value cannot be stored"), "\(refused)")
            #expect(try numbers.count(in: db) == 0)
        }
    }

    /// Which Swift takes for equal, and SQLite does not.
    @Test func keysOfOtherCharacters() throws {
        let numbers = KeyValueCollection("numbers", of: Int.self, by: String.self)
        try db.write { (db) throws in
            try db.create(collection: numbers)
            let keys = ["\u{e9}", "e\u{301}"]
            for (number, key) in keys.enumerated() { try numbers.set(number, for: key, in: db) }
            #expect(try numbers.getMany(keys, in: db).map(\.value) == [0, 1])
            #expect(try numbers.getMany(keys.reversed(), in: db).map(\.value) == [1, 0])
        }
    }

    @Test func withoutItsTable() throws {
        let lost = KeyValueCollection("lost", of: Int.self, by: String.self)
        try db.write { (db) throws in
            for access in [
                { _ = try lost.get("a", in: db) }, { try lost.set(1, for: "a", in: db) }, { _ = try lost.keys(in: db) },
                { _ = try lost.entries(in: db) }, { _ = try lost.count(in: db) },
            ] as [() throws -> Void] {
                let error = #expect(throws: DatabaseError.self) { try access() }
                #expect(error?.message?.contains("'lost' has no table in this database: create it") == true)
            }
        }
    }

    /// SQLite would cut it.
    @Test func textWithANUL() throws {
        let texts = KeyValueCollection(
            "texts",
            of: String.self,
            by: Int.self,
            coding: CollectionCoding(encode: { $0.databaseValue }, decode: { String.fromDatabaseValue($0) ?? "" })
        )
        try db.write { (db) throws in
            try db.create(collection: texts)
            let error = #expect(throws: CollectionError.self) { try texts.set("a\0b", for: 1, in: db) }
            #expect(error?.description.contains("NUL") == true)
            #expect(try texts.count(in: db) == 0)
        }
    }

    @Test func fieldsByCodingKeys() throws {
        struct Numbered: Codable {
            var a: Int
            enum CodingKeys: Int, CodingKey { case a = 7 }
        }
        let collection = KeyValueCollection("numbered", of: Numbered.self, by: Int.self)
        try db.write { (db) throws in
            try db.create(collection: collection)
            try collection.set(Numbered(a: 5), for: 1, in: db)
            let field = collection.field([Numbered.CodingKeys.a])
            #expect(try Int.fetchOne(db, sql: "SELECT \(field) FROM collection_numbered") == 5)
        }
        typealias Numbers = KeyValueCollection<Int, Numbered, Never>
        for name in ["a\\b", "a\nb", "a\"b", "\0"] { #expect(!Numbers.isNameable(name)) }
        for name in ["", "a.b", "a[0]", "é", "it's", "a/b", "$", "#-1"] { #expect(Numbers.isNameable(name)) }
    }

    @Test func kindsOfKeys() throws {
        func check<Key: CollectionKey>(_ keys: [Key], type: String) throws {
            let collection = KeyValueCollection("of \(Key.self), 'x'", of: Int.self, by: Key.self)
            try db.write { (db) throws in
                try db.create(collection: collection)
                for (number, key) in keys.enumerated() { try collection.set(number, for: key, in: db) }
                #expect(try collection.keys(in: db) == keys)
                #expect(try collection.getMany(keys, in: db).count == keys.count)
                #expect(try collection.get(keys[1], in: db) == 1)
                let types = try String.fetchSet(
                    db,
                    sql: "SELECT typeof(key) FROM \(collection.table.quotedDatabaseIdentifier)"
                )
                #expect(types == [type])
                try db.drop(collection: collection)
                #expect(try !db.tableExists(collection.table))
            }
        }
        try check(["", "a", "b"], type: "text")
        try check([Int.min, 0, 7, .max], type: "integer")
        try check([Int64.min, 0, .max], type: "integer")
        try check([Data(), Data([0]), Data([0, 1]), Data([255])], type: "blob")
        try check(
            [
                UUID(uuidString: "00000000-0000-0000-0000-000000000001")!,
                UUID(uuidString: "F0000000-0000-0000-0000-000000000000")!,
            ],
            type: "blob"
        )
        try check([Wrapped(rawValue: "a"), Wrapped(rawValue: "b")], type: "text")
        try check([Level.low, .high], type: "integer")
    }

    private struct Wrapped: RawRepresentable, CollectionKey { var rawValue: String }
    private enum Level: Int, CollectionKey { case low = 1, high }

    @Test func codings() throws {
        let dates = [Date(timeIntervalSince1970: 1_700_000_000.123), Date(timeIntervalSince1970: 0)]
        let plist = KeyValueCollection("plist", of: [Date].self, by: String.self, coding: .propertyList)
        let json = KeyValueCollection("json", of: [Date].self, by: String.self, table: "dates")
        let own = KeyValueCollection(
            "own",
            of: Int.self,
            by: String.self,
            coding: CollectionCoding {
                $0.databaseValue
            } decode: {
                Int.fromDatabaseValue($0) ?? 0
            }
        )
        try db.write { (db) throws in
            try db.create(collection: plist)
            try db.create(collection: json)
            try db.create(collection: own)
            try plist.set(dates, for: "a", in: db)
            try json.set(dates, for: "a", in: db)
            try own.set(42, for: "a", in: db)
            #expect(try plist.get("a", in: db) == dates)
            #expect(try json.get("a", in: db) == dates)
            #expect(try own.get("a", in: db) == 42)
            #expect(try String.fetchOne(db, sql: "SELECT typeof(value) FROM collection_plist") == "blob")
            #expect(try Int.fetchOne(db, sql: "SELECT value FROM collection_own") == 42)
            #expect(
                try Int.fetchOne(db, sql: "SELECT \(json.field([Place(intValue: 0)])) FROM dates") == 1_700_000_000_123
            )
        }
    }

    private struct Place: CodingKey {
        var intValue: Int?
        var stringValue: String { "" }
        init(intValue: Int) { self.intValue = intValue }
        init?(stringValue: String) { return nil }
    }

    /// A rolled back transaction takes back what was set, in the collection as in tables.
    @Test func inTheSameTransaction() throws {
        struct Changed: Error {}
        #expect(throws: Changed.self) {
            try db.write { (db) throws in
                _ = try Player(name: "A").inserted(db)
                try people.set(person("A"), for: "a", in: db)
                throw Changed()
            }
        }
        try db.read { (db) throws in #expect(try people.count(in: db) == 0 && Player.fetchCount(db) == 0) }
    }

    /// An equal value is no change; a touch is one. Observations and feeds of this participant and of others show this.
    @Test(.timeLimit(.minutes(1))) func changesAreAnnounced() async throws {
        let other = try Self.open(url, "other")
        var own = db.changes(in: people).makeAsyncIterator()
        var others = other.changes(in: people).makeAsyncIterator()
        let people = people
        var values = ValueObservation.tracking { try people.get("a", in: $0)?.name }.values(in: other)
            .makeAsyncIterator()
        #expect(try await values.next() == .some(nil))
        try await db.write { _ = try people.set(Person(name: "A"), for: "a", in: $0) }
        #expect(try await own.next()?.author == "app")
        #expect(try await others.next()?.tables == .some(["collection_people"]))
        #expect(try await values.next() == "A")
        // If this were reported, it would come before the next change.
        try await db.write { (db) throws in
            #expect(try !people.set(Person(name: "A"), for: "a", in: db))
            #expect(try !people.set(Person(name: "A"), metadata: nil, for: "a", in: db))
        }
        try await other.write { (db) throws in #expect(try people.touch("a", in: db) && !people.touch("b", in: db)) }
        #expect(try await own.next()?.author == "other")
        #expect(try await others.next()?.author == "other")
        #expect(try await values.next() == "A")
    }
}
