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
        return try SharedDatabase.open(at: url, schema: SharedSchema(Self.migrator(["v1"])), as: "app")
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

    /// The refusal of a source in WAL mode leaves nothing beside it, and that of a lock names the database.
    @Test func refusalsLeaveNothing() throws {
        let db = try open()
        try make("other.db", ["v0"], rows: 0)
        let source = try DatabaseQueue(path: folder.path("other.db"))
        try source.writeWithoutTransaction { try $0.execute(sql: "PRAGMA journal_mode = WAL") }
        try source.close()
        let result = try Tool.run("replace", "a.db", "--with", "other.db", in: folder)
        #expect(result.code == 1 && result.errors.contains("other.db: is the database of another program: it has"))
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.url.path)
        #expect(names.filter { $0.hasPrefix("other.db") } == ["other.db"])

        try make("backup.db", ["v1"], rows: 0)
        let writer = try DatabaseQueue(path: folder.path("a.db"))
        try writer.inDatabase { writing in
            try writing.execute(sql: "BEGIN IMMEDIATE")
            let locked = try Tool.run("replace", "a.db", "--with", "backup.db", "--timeout", "0.1", in: folder)
            #expect(locked.code == 1 && locked.errors.hasPrefix("roundtable: \(db.path): "), "\(locked.errors)")
            #expect(locked.errors.contains("Nothing was changed. Try again after that"), "\(locked.errors)")
            try writing.execute(sql: "ROLLBACK")
        }
        try writer.close()
        try db.close()
    }

    /// The migrations of a damaged database cannot be compared. On request, a backup takes its place all the same.
    @Test func aDamagedDatabase() throws {
        try make("a.db", ["v1"], rows: 1)
        try make("backup.db", ["v1"], rows: 7)
        let queue = try DatabaseQueue(path: folder.path("a.db"))
        let pages = try queue.read {
            try Int.fetchAll($0, sql: "SELECT rootpage FROM sqlite_master WHERE tbl_name = 'grdb_migrations'")
        }
        try queue.close()
        try #require(pages.count == 2 && !pages.contains(1))
        try damage(pages.map { ($0 - 1) * 4096 })
        let refused = try Tool.run("replace", "a.db", "--with", "backup.db", in: folder)
        #expect(refused.code == 1, "\(refused.errors)")
        #expect(refused.errors.contains("a.db: is damaged, and its migrations cannot be read"), "\(refused.errors)")
        #expect(refused.errors.contains("--other-migrations"), "\(refused.errors)")
        let replaced = try Tool.run("replace", "a.db", "--with", "backup.db", "--other-migrations", in: folder)
        #expect(replaced.code == 0, "\(replaced.errors)")
        let db = try open()
        #expect(try db.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM v1") } == 7)
        try db.close()

        // Where not even the schema can be read, opening fails, and says what is left to do.
        try damage([100])
        let unopened = try Tool.run("replace", "a.db", "--with", "backup.db", "--other-migrations", in: folder)
        #expect(unopened.code == 1 && unopened.errors.contains("a.db: database disk image is malformed: the file is"))
        #expect(unopened.errors.contains("first run 'roundtable quarantine'"), "\(unopened.errors)")
    }

    private func damage(_ offsets: [Int]) throws {
        let file = try FileHandle(forUpdating: folder.url.appendingPathComponent("a.db"))
        for offset in offsets {
            try file.seek(toOffset: UInt64(offset))
            try file.write(contentsOf: Data(repeating: 0x5A, count: 64))
        }
        try file.close()
    }
}
