import Foundation
import GRDB
import Roundtable
import RoundtableUnitSupport
import Testing

/// The sample of the guide `MigratingFromYapDatabase`, on a file as YapDatabase makes it.
@Suite struct YapDatabaseMigrationTests {
    private struct Book: Codable, Sendable, Equatable {
        var title: String
        var pages: Int
    }

    private struct Downloaded: Codable, Sendable, Equatable {
        var on: Date
    }

    private static let books = KeyValueCollection("books", of: Book.self, by: String.self, metadata: Downloaded.self)

    /// Copies one collection of a YapDatabase, in transactions of a thousand rows, and continues where it was interrupted.
    private func copyBooks(from old: URL, to db: SharedDatabase) async throws {
        var configuration = Configuration()
        configuration.readonly = true
        let yap = try UnsharedDatabase.openQueue(at: old, configuration: configuration)
        let decoder = PropertyListDecoder()
        while true {
            let last = try await db.read { (db) throws in
                try Int64.fetchOne(db, sql: "SELECT done FROM moved WHERE name = 'books'") ?? 0
            }
            let entries = try await yap.read { db in
                try Row.fetchAll(
                    db,
                    sql: """
                        SELECT rowid, key, data, metadata FROM database2
                        WHERE collection = 'books' AND rowid > ? ORDER BY rowid LIMIT 1000
                        """,
                    arguments: [last]
                ).map { row in
                    try (
                        rowid: row["rowid"] as Int64,
                        key: row["key"] as String,
                        book: decoder.decode(Book.self, from: row["data"]),
                        downloaded: (row["metadata"] as Data?).map { try decoder.decode(Downloaded.self, from: $0) }
                    )
                }
            }
            guard let end = entries.last?.rowid else { return }
            try await db.write { (db) throws in
                for entry in entries {
                    try Self.books.set(entry.book, metadata: entry.downloaded, for: entry.key, in: db)
                }
                try db.execute(
                    sql: "INSERT INTO moved VALUES ('books', ?) ON CONFLICT (name) DO UPDATE SET done = excluded.done",
                    arguments: [end]
                )
            }
        }
    }

    @Test func copied() async throws {
        let folder = try TemporaryFolder()
        let old = folder.file("yap.sqlite")
        let count = 2500
        try Self.makeYapDatabase(at: old, books: count)

        var migrator = DatabaseMigrator()
        migrator.registerMigration("books") { db in
            try db.create(collection: Self.books)
            try db.execute(sql: "CREATE TABLE moved (name TEXT PRIMARY KEY, done INTEGER NOT NULL)")
        }
        let db = try await SharedDatabase.open(at: folder.file("new.sqlite"), schema: SharedSchema(migrator), as: "app")
        for _ in 1...2 { try await copyBooks(from: old, to: db) }
        try await db.read { (db) throws in
            #expect(try Self.books.count(in: db) == count)
            let entry = try #require(try Self.books.entry("book 7", in: db))
            #expect(entry.value == Book(title: "Title 7", pages: 7))
            #expect(entry.metadata == Downloaded(on: Date(timeIntervalSince1970: 7)))
            #expect(try Self.books.entry("book 8", in: db)?.metadata == nil)
        }
    }

    /// The tables and the index of YapDatabase 4, and objects as its `registerCodableSerialization` stores them.
    private static func makeYapDatabase(at url: URL, books: Int) throws {
        let queue = try DatabaseQueue(path: url.path)
        try queue.writeWithoutTransaction { try $0.execute(sql: "PRAGMA journal_mode = WAL") }
        try queue.write { (db) throws in
            try db.execute(
                sql: """
                    CREATE TABLE "yap2" ("derived table" CHAR NOT NULL, "key" CHAR NOT NULL, "data" BLOB, PRIMARY KEY ("derived table", "key"));
                    CREATE TABLE "database2" ("rowid" INTEGER PRIMARY KEY, "collection" CHAR NOT NULL, "key" CHAR NOT NULL, "data" BLOB, "metadata" BLOB);
                    CREATE UNIQUE INDEX "true_primary_key" ON "database2" ("collection", "key");
                    """
            )
            let encoder = PropertyListEncoder()
            encoder.outputFormat = .xml
            let insert = try db.makeStatement(
                sql: "INSERT INTO database2 (collection, key, data, metadata) VALUES (?, ?, ?, ?)"
            )
            try insert.execute(arguments: ["other", "x", Data([1]), nil])
            for number in 1...books {
                let book = try encoder.encode(Book(title: "Title \(number)", pages: number))
                let metadata =
                    number % 2 == 1
                    ? try encoder.encode(Downloaded(on: Date(timeIntervalSince1970: Double(number)))) : nil
                try insert.execute(arguments: ["books", "book \(number)", book, metadata])
            }
        }
        try queue.close()
    }
}
