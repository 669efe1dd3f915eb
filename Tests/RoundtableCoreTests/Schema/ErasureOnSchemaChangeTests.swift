import Foundation
import GRDB
import RoundtableUnitSupport
import Testing

@testable import Roundtable

/// GRDB's `eraseDatabaseOnSchemaChange` on a shared database.
@Suite struct ErasureOnSchemaChangeTests {
    private let folder: TemporaryFolder
    private let url: URL

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("db.sqlite")
    }

    private func schema(_ columns: String, further: [String] = []) -> SharedSchema {
        var migrator = DatabaseMigrator()
        migrator.eraseDatabaseOnSchemaChange = true
        migrator.registerMigration("v1") { try $0.execute(sql: "CREATE TABLE player (\(columns))") }
        for name in further {
            migrator.registerMigration(name) { try $0.execute(sql: "CREATE TABLE \(name) (id INTEGER PRIMARY KEY)") }
        }
        return SharedSchema(migrator)
    }

    private func open(_ schema: SharedSchema, as author: String = "app") throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        options.outbox = OutboxHandlers()
        return try SharedDatabase.open(at: url, schema: schema, as: author, options: options)
    }

    private func columns(_ db: SharedDatabase) throws -> [String] {
        try db.read { try $0.columns(in: "player").map(\.name) }
    }

    private func titles(_ db: SharedDatabase) throws -> [String] {
        try db.read { try String.fetchAll($0, sql: "SELECT title FROM player") }
    }

    /// With tables and triggers of Roundtable's own in the database, which are no change.
    @Test func isErasedWhenItHasChanged() throws {
        let first = try open(schema("id INTEGER PRIMARY KEY, name TEXT"))
        try first.history.enable(for: "player")
        try first.insert("A")
        try first.close()
        let same = try open(schema("id INTEGER PRIMARY KEY, name TEXT"))
        #expect(try same.names() == ["A"])
        try same.close()
        let more = try open(schema("id INTEGER PRIMARY KEY, name TEXT", further: ["team"]))
        #expect(try more.names() == ["A"])
        try more.close()
        let changed = try open(schema("id INTEGER PRIMARY KEY, name TEXT, score INTEGER", further: ["team"]))
        #expect(try columns(changed) == ["id", "name", "score"])
        #expect(try changed.names() == [])
        try changed.insert("B")
        try changed.close()
        // A migration was removed.
        #expect(try open(schema("id INTEGER PRIMARY KEY, name TEXT, score INTEGER")).names() == [])
    }

    /// A location that says `mode=rw` has a file all the time, with the same access rights.
    @Test func keepsTheFile() throws {
        try open(schema("id INTEGER PRIMARY KEY, name TEXT")).close()
        chmod(url.path, 0o640)
        let existing = try #require(URL(string: url.absoluteString + "?mode=rw"))
        let changed = schema("id INTEGER PRIMARY KEY, title TEXT")
        let db = try SharedDatabase.open(at: existing, schema: changed, as: "app")
        #expect(try columns(db) == ["id", "title"])
        var status = stat()
        #expect(stat(url.path, &status) == 0 && status.st_mode & 0o777 == 0o640)
    }

    /// The error says who else has it open.
    @Test func isNotErasedUnderOthers() throws {
        let other = try open(schema("id INTEGER PRIMARY KEY, name TEXT"), as: "widget")
        try other.insert("A")
        let error = #expect(throws: SharedDatabaseError.self) { try open(schema("id INTEGER PRIMARY KEY, title TEXT")) }
        guard case .erasesDatabaseOnSchemaChange(_, let names)? = error else {
            throw DatabaseError(message: error.map { "\($0)" } ?? "no error")
        }
        #expect(names.count == 1 && names[0].hasPrefix("'widget'"))
        #expect(try other.names() == ["A"])
        // One that has not changed opens.
        #expect(try open(schema("id INTEGER PRIMARY KEY, name TEXT")).names() == ["A"])
    }

    /// Programs that are started together: one erases, and the others wait for it.
    @Test(.timeLimit(.minutes(1))) func startedTogether() async throws {
        let first = try open(schema("id INTEGER PRIMARY KEY, name TEXT"))
        try first.insert("A")
        try first.close()
        let all = try await withThrowingTaskGroup(of: SharedDatabase.self) { group in
            for number in 0..<6 {
                group.addTask {
                    try await onThread {
                        Result { try open(schema("id INTEGER PRIMARY KEY, title TEXT"), as: "\(number)") }
                    }.get()
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        for db in all { #expect(try columns(db) == ["id", "title"]) }
        try all[0].run("INSERT INTO player (title) VALUES ('B')")
        for db in all { #expect(try titles(db) == ["B"]) }
    }

    /// By way of `.unmanaged`, GRDB's own migrator erases the content, and the file stays. Others go on with it.
    @Test func withoutManagedMigrations() throws {
        func open(_ columns: String) throws -> SharedDatabase {
            let db = try SharedDatabase.open(at: url, schema: .unmanaged, as: "app")
            var migrator = DatabaseMigrator()
            migrator.eraseDatabaseOnSchemaChange = true
            migrator.registerMigration("v1") { try $0.execute(sql: "CREATE TABLE player (\(columns))") }
            try migrator.migrate(db)
            return db
        }
        let db = try open("id INTEGER PRIMARY KEY, name TEXT")
        try db.insert("A")
        let other = try open("id INTEGER PRIMARY KEY, name TEXT, score INTEGER")
        #expect(try columns(other) == ["id", "name", "score"])
        #expect(try columns(db) == ["id", "name", "score"])
        try db.insert("B")
        #expect(try other.names() == ["B"])
    }
}
