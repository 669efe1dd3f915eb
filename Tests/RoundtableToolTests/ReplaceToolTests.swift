import Foundation
import GRDB
import Roundtable
import Testing

/// `roundtable replace`: the content of a database that programs have open.
@Suite(.timeLimit(.minutes(2))) struct ReplaceToolTests {
    private let folder: Folder

    init() throws { folder = try Folder() }

    private static func migrator(_ names: [String]) -> DatabaseMigrator {
        var migrator = DatabaseMigrator()
        for name in names { migrator.registerMigration(name) { try $0.execute(sql: "CREATE TABLE \(name) (a)") } }
        return migrator
    }

    /// A database file by itself, with these migrations.
    private func make(_ name: String, _ migrations: [String], rows: Int) throws {
        let queue = try DatabaseQueue(path: folder.path(name))
        try Self.migrator(migrations).migrate(queue)
        try queue.write { db in
            for row in 0..<rows { try db.execute(sql: "INSERT INTO v1 VALUES (?)", arguments: [row]) }
        }
        try queue.close()
    }

    private func open() throws -> SharedDatabase {
        let url = URL(fileURLWithPath: folder.path("a.db"))
        return try SharedDatabase.open(at: url, schema: Schema(Self.migrator(["v1"])), as: "app")
    }

    @Test func replaces() throws {
        let db = try open()
        try make("backup.db", ["v1"], rows: 7)
        let result = try Tool.run("replace", "a.db", "--with", "backup.db", "--json", in: folder)
        #expect(result.code == 0 && result.errors.isEmpty, "\(result.errors)")
        #expect(result.json?["migrations"] as? Int == 1 && result.json?["bytes"] as? Int ?? 0 > 4096)
        #expect(result.json?["path"] as? String == db.path)
        #expect(try db.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM v1") } == 7)
        try db.write { try $0.execute(sql: "INSERT INTO v1 VALUES (8)") }
        #expect(try Tool.run("replace", "a.db", "--with", "backup.db", in: folder).output.contains("backup.db"))
        #expect(try db.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM v1") } == 7)
        try db.close()
    }

    @Test func refuses() throws {
        let db = try open()
        try db.write { try $0.execute(sql: "INSERT INTO v1 VALUES (1)") }
        try make("newer.db", ["v1", "v2"], rows: 0)
        try Data(repeating: 7, count: 5000).write(to: folder.url.appendingPathComponent("text"))
        for (arguments, text) in [
            (["a.db", "--with", "newer.db"], "has the migrations 'v2'"),
            (["a.db", "--with", "text"], "is not a SQLite database"),
            (["a.db", "--with", "none.db"], "there is no such file"),
            (["a.db", "--with", "a.db"], "is the database itself"),
            (["none.db", "--with", "newer.db"], "none.db: there is no such file"),
        ] {
            let result = try Tool.run(["replace"] + arguments, in: folder)
            #expect(result.code == 1 && result.output.isEmpty && result.errors.contains(text), "\(result)")
            #expect(result.errors.split(separator: "\n").count == 1, "\(result.errors)")
        }
        #expect(!FileManager.default.fileExists(atPath: folder.path("none.db")))
        #expect(try db.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM v1") } == 1)
        #expect(try Tool.run("replace", "a.db", in: folder).code == 64)
        // On request. The program refuses to write what it does not know.
        #expect(try Tool.run("replace", "a.db", "--with", "newer.db", "--other-migrations", in: folder).code == 0)
        #expect(throws: SharedDatabaseError.schemaTooNew(path: db.path, unknownMigrations: ["v2"])) {
            try db.write { try $0.execute(sql: "INSERT INTO v1 VALUES (2)") }
        }
        try db.close()
    }
}
