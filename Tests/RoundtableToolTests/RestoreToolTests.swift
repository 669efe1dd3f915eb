import Foundation
import GRDB
import Roundtable
import RoundtableKernel
import RoundtableTestSupport
import Testing

/// `roundtable restore` with a script in the place of Litestream, which "restores" a file that the test has prepared.
@Suite struct RestoreToolTests {
    private let folder: Folder

    init() throws {
        folder = try Folder()
        try backUp { db in
            try db.execute(sql: "CREATE TABLE t(x); INSERT INTO t VALUES (7); CREATE TABLE _litestream_seq(x)")
        }
        try install()
    }

    /// The program "litestream".
    ///
    /// - parameter restoring: what it does when it restores into `$out`.
    private func install(restoring: String = "cp \"$backup\" \"$out\"") throws {
        let log = """
            {"time":"x","level":"DEBUG","msg":"restore plan","txid":"000000000000001f","timestamp":"2026-11-23T17:29:21.381Z"}
            """
        let script = """
            #!/bin/sh
            backup=\(folder.path("backup"))
            case "$*" in version) echo 0.5.17; exit;; esac
            for last; do out=$last; done
            case "$out" in */claim) echo 'Error: no matching backup files available' >&2; exit 1;; esac
            case "$*" in
                *-dry-run*) echo '{"max_txid":"000000000000001f","files":[{"size":100,"timestamp":"2026-11-23T17:29:21Z"}]}';;
                *) \(restoring); echo '\(log)' >&2;;
            esac
            """
        try script.write(toFile: folder.path("litestream"), atomically: true, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: folder.path("litestream"))
    }

    /// Prepares what is restored.
    private func backUp(_ body: (Database) throws -> Void) throws {
        try? FileManager.default.removeItem(atPath: folder.path("backup"))
        let queue = try DatabaseQueue(path: folder.path("backup"))
        try queue.write(body)
        try queue.close()
    }

    private func restore(_ arguments: String...) throws -> Tool.Result {
        try Tool.run(
            ["restore", "s3://bucket/db", "app.db", "--litestream", folder.path("litestream")] + arguments,
            in: folder
        )
    }

    private func number(in name: String = "app.db") throws -> Int? {
        let queue = try DatabaseQueue(path: folder.path(name))
        defer { try? queue.close() }
        return try queue.read { db in try Int.fetchOne(db, sql: "SELECT x FROM t") }
    }

    private var names: Set<String> {
        get throws {
            Set(try FileManager.default.contentsOfDirectory(atPath: folder.url.path)).subtracting([
                "backup", "litestream",
            ])
        }
    }

    private func asideFolder() throws -> String {
        try #require(try names.first { $0.hasPrefix("app.db-replaced-") })
    }

    @Test func restores() throws {
        let result = try restore("--json")
        #expect(result.code == 0, "\(result.errors)")
        #expect(result.errors.isEmpty)
        let json = try #require(result.json)
        #expect(json["transaction"] as? String == "000000000000001f")
        #expect(json["time"] as? String == "2026-11-23T17:29:21.381Z")
        #expect(json["tables"] as? Int == 1, "Litestream's own is not counted")
        #expect(json["wal"] as? Bool == false, "the journal mode stays as it was")
        #expect((json["checks"] as? [String: Any])?["integrity_check"] as? String == "ok")
        #expect(try number() == 7)
        #expect(try names == ["app.db"])
    }

    @Test func text() throws {
        let result = try restore()
        #expect(
            result.output.contains(
                "  restored    transaction 000000000000001f of 2026-11-23T17:29:21.381Z, the newest\n"
            )
        )
        #expect(result.output.contains("  schema      1 table, rollback-journal mode\n"))
    }

    @Test func nothingIsReplaced() throws {
        try "precious".write(toFile: folder.path("app.db"), atomically: true, encoding: .utf8)
        let before = try folder.contents
        let result = try restore()
        #expect(result.code == 1)
        #expect(
            result.errors.contains("app.db: exists. Restore to another path, or give --replace"),
            "\(result.errors)"
        )
        #expect(try folder.contents == before)
    }

    /// A journal of a database that was removed would be applied to the restored one.
    @Test(arguments: ["-wal", "-journal"]) func strayJournal(_ ending: String) throws {
        try "left".write(toFile: folder.path("app.db\(ending)"), atomically: true, encoding: .utf8)
        let result = try restore()
        #expect(result.code == 1)
        #expect(result.errors.contains("app.db\(ending): was left by a database that is gone"), "\(result.errors)")
        #expect(try restore("--replace").code == 0)
        let aside = try asideFolder()
        #expect(try names == ["app.db", aside])
        #expect(FileManager.default.contents(atPath: folder.path("\(aside)/app.db\(ending)")) == Data("left".utf8))
    }

    /// What belongs to the old database is removed with it: its rows that only the WAL has, and what Litestream has kept for it. The outbox
    /// stays, because its commands were acknowledged.
    @Test func replaces() throws {
        try Shell.make("app.db", in: folder, wal: true)
        let shell = try Shell(folder, "app.db")
        try shell.execute("UPDATE t SET x = 2;")
        shell.kill()
        let companions = ["app.db-wal", "app.db-shm", "app.db-coord4", "app.db-salt", "app.db-replication"]
        for name in companions.dropFirst(2) {
            try name.write(toFile: folder.path(name), atomically: true, encoding: .utf8)
        }
        for path in [".app.db-litestream/ltx/0", "app.db-outbox/commands"] {
            try FileManager.default.createDirectory(atPath: folder.path(path), withIntermediateDirectories: true)
        }
        let command = "app.db-outbox/commands/widget.0000000001.5f0c2a91.000000000001.command"
        try "".write(toFile: folder.path(command), atomically: true, encoding: .utf8)
        try "app.db-other".write(toFile: folder.path("app.db-other"), atomically: true, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: folder.path("app.db"))

        let result = try restore("--replace")
        #expect(result.code == 0, "\(result.errors)")
        let aside = try asideFolder()
        #expect(result.output.contains("  outbox      1 command waits, and will be applied to the restored database\n"))
        #expect(try names == ["app.db", "app.db-outbox", "app.db-other", aside])
        let moved = try FileManager.default.contentsOfDirectory(atPath: folder.path(aside))
        #expect(Set(moved) == Set(companions + ["app.db", ".app.db-litestream"]))
        #expect(FileManager.default.fileExists(atPath: folder.path(command)))
        let mode = try FileManager.default.attributesOfItem(atPath: folder.path("app.db"))[.posixPermissions] as? Int
        #expect(mode == 0o640)
        // A user who may read the database may also open it where it is now.
        let access = try FileManager.default.attributesOfItem(atPath: folder.path(aside))[.posixPermissions] as? Int
        #expect(access == 0o750)
        #expect(try number() == 7)
        #expect(try number(in: "\(aside)/app.db") == 2, "the old database has the rows of its WAL")
    }

    @Test(arguments: ["SQLite format 3\0", "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", ""])
    func damagedDatabaseIsReplaced(beginning: String) throws {
        let rest = beginning.isEmpty ? "" : String(repeating: "no database ", count: 1000)
        try Data((beginning + rest).utf8).write(to: URL(fileURLWithPath: folder.path("app.db")))
        let result = try restore("--replace")
        #expect(result.code == 0, "\(result.errors)")
        #expect(try number() == 7)
    }

    /// A wrong path does not cost another program its file.
    @Test(arguments: ["root:x:0:0:root:/root:/bin/bash\n", "x", "SQLite format 2\0"])
    func anotherFileIsNotReplaced(content: String) throws {
        try Data(content.utf8).write(to: URL(fileURLWithPath: folder.path("app.db")))
        let result = try restore("--replace")
        #expect(result.code == 1)
        #expect(result.errors.contains("app.db: does not begin as a SQLite database does"), "\(result.errors)")
        #expect(try names == ["app.db"])
        #expect(FileManager.default.contents(atPath: folder.path("app.db")) == Data(content.utf8))
    }

    /// The participant is idle, and so holds no lock of SQLite's for long.
    @Test func inUseByParticipant() async throws {
        let db = try await SharedDatabase.open(
            at: folder.url.appendingPathComponent("app.db"),
            schema: SharedSchema(DatabaseMigrator()),
            as: "the app"
        )
        try await db.write { db in try db.execute(sql: "CREATE TABLE t(x)") }
        for arguments in [[], ["--replace"]] {
            let result = try Tool.run(
                ["restore", "s3://bucket/db", "app.db", "--litestream", folder.path("litestream")] + arguments,
                in: folder
            )
            #expect(result.code == 1)
            let user = "'the app' (pid \(ProcessInfo.processInfo.processIdentifier))"
            #expect(result.errors.contains("app.db: is in use by \(user). "), "\(result.errors)")
            let advice = "then 'roundtable replace \(db.path) --with THAT', which ends no program"
            #expect(result.errors.contains(advice) == arguments.isEmpty, "\(result.errors)")
        }
        try db.close()
    }

    @Test(.enabled(if: Shell.isInstalled, "the sqlite3 shell is not installed")) func inUseByStranger() throws {
        try Shell.make("app.db", in: folder, wal: true)
        let shell = try Shell(folder, "app.db")
        try shell.execute("SELECT * FROM t;")
        let result = try restore("--replace")
        #expect(result.code == 1)
        #expect(
            result.errors.contains("is in use by 'sqlite3' (pid \(shell.pid)). End these programs."),
            "\(result.errors)"
        )
    }

    /// A program that begins while Litestream works is found before anything is moved.
    @Test func isUsedMeanwhile() throws {
        try Shell.make("app.db", in: folder, wal: true)
        try install(
            restoring:
                "cp \"$backup\" \"$out\"; touch \(folder.path("begun")); while [ -e \(folder.path("begun")) ]; do sleep 0.01; done"
        )
        let (output, errors) = (Pipe(), Pipe())
        let arguments = ["restore", "s3://b", "app.db", "--replace", "--litestream", folder.path("litestream")]
        let process = try Tool.start(arguments, in: folder.url, output: output, errors: errors)
        try eventually("the restore has begun") { FileManager.default.fileExists(atPath: folder.path("begun")) }
        let shell = try Shell(folder, "app.db")
        try shell.execute("SELECT * FROM t;")
        try FileManager.default.removeItem(atPath: folder.path("begun"))
        let text = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        #expect(process.terminationStatus == 1)
        #expect(text.contains("is in use by 'sqlite3' (pid \(shell.pid))"), "\(text)")
        #expect(try names == ["app.db", "app.db-wal", "app.db-shm"])
    }

    @Test func appearsMeanwhile() throws {
        try install(restoring: "cp \"$backup\" \"$out\"; echo mine > \(folder.path("app.db"))")
        let result = try restore()
        #expect(result.code == 1)
        #expect(try names == ["app.db"])
        #expect(FileManager.default.contents(atPath: folder.path("app.db")) == Data("mine\n".utf8))
    }

    @Test func damagedBackup() throws {
        try backUp { db in
            try db.execute(sql: "CREATE TABLE t(x); CREATE INDEX i ON t(x)")
            for number in 1...5000 { try db.execute(sql: "INSERT INTO t VALUES (?)", arguments: [number]) }
        }
        let file = try FileHandle(forUpdating: folder.url.appendingPathComponent("backup"))
        try file.seek(toOffset: 20_000)
        try file.write(contentsOf: Data(repeating: 0x55, count: 9000))
        try file.close()
        let result = try restore()
        #expect(result.code == 1)
        #expect(
            result.errors.contains("s3://bucket/db: the backup is damaged, and was not restored: integrity_check: "),
            "\(result.errors)"
        )
        #expect(!result.errors.contains("-restore."), "the temporary path is not shown: \(result.errors)")
        #expect(try names.isEmpty)
    }

    private func dropInsertTrigger(ofDatabaseAt path: String) throws {
        let queue = try DatabaseQueue(path: path)
        try queue.write { db in
            let sql = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'roundtable_ext_%insert'"
            let trigger = try #require(try String.fetchOne(db, sql: sql))
            try db.execute(sql: "DROP TRIGGER \(trigger)")
        }
        try queue.close()
    }

    @Test func damagedDerivedTableIsReported() async throws {
        let url = folder.url.appendingPathComponent("source.db")
        var migrator = DatabaseMigrator()
        migrator.registerMigration("first") { db in
            try db.execute(sql: "CREATE TABLE player(id INTEGER PRIMARY KEY, name TEXT)")
        }
        let index = SecondaryIndex("player_by_name", version: 1, of: "player", fields: [.init("name", "name")])
        let schema = SharedSchema(migrator, derivedTables: DerivedTableSet(revision: 1, [index]))
        let db = try await SharedDatabase.open(at: url, schema: schema, as: "app")
        try db.close()
        try dropInsertTrigger(ofDatabaseAt: url.path)
        try FileManager.default.removeItem(atPath: folder.path("backup"))
        try FileManager.default.copyItem(atPath: url.path, toPath: folder.path("backup"))
        let result = try restore("--json")
        #expect(result.code == 0, "\(result.errors)")
        let checks = try #require(result.json?["checks"] as? [String: Any])
        let findings = try #require(checks["findings"] as? [[String: Any]])
        #expect(findings.map { $0["id"] as? String } == ["broken_derived_table"])
        #expect((checks["derived_tables"] as? [[String: Any]])?.first?["state"] as? String == "triggers_missing")
        #expect(result.json?["migrations"] as? [String] == ["first"])
    }

    @Test(arguments: [(SIGINT, Int32(130)), (SIGTERM, Int32(143))] as [(Int32, Int32)])
    func isEnded(_ signal: Int32, _ code: Int32) throws {
        try install(restoring: "touch \(folder.path("begun")); exec sleep 60")
        let (output, errors) = (Pipe(), Pipe())
        let arguments = ["restore", "s3://b", "app.db", "--litestream", folder.path("litestream")]
        let process = try Tool.start(arguments, in: folder.url, output: output, errors: errors)
        try eventually("the restore has begun") { FileManager.default.fileExists(atPath: folder.path("begun")) }
        kill(process.processIdentifier, signal)
        let text = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        #expect(process.terminationReason == .exit && process.terminationStatus == code)
        #expect(text.contains("ended by signal \(signal): nothing was restored"), "\(text)")
        #expect(try names == ["begun"])
    }

    /// A run that was killed leaves its temporary folder, and perhaps second names of journals. Those of living processes stay.
    @Test func removesWhatWasLeft() throws {
        let dead = try Tool.start(["--version"], in: folder.url, output: Pipe(), errors: Pipe())
        dead.waitUntilExit()
        let own = ProcessIdentity.current
        let left = ".app.db-restore.\(dead.processIdentifier)-1-\(own.namespace)-1-1.new"
        let living = ".app.db-restore.\(own.pid)-\(own.startTime)-\(own.namespace)-1-1.new"
        let other = ".other.db-restore.\(dead.processIdentifier)-1-\(own.namespace)-1-1.new"
        let staging = try StagingFolder(left, in: OpenFolder(at: folder.url.path))
        for name in [living, other, "app.db-replaced-1", "app.db-replaced-2"] {
            try FileManager.default.createDirectory(atPath: folder.path(name), withIntermediateDirectories: true)
        }
        try "x".write(toFile: "\(staging.path)/database.tmp", atomically: true, encoding: .utf8)
        // Killed after the database had moved, and before the journal lost its first name.
        try "old".write(toFile: folder.path("app.db-replaced-1/app.db"), atomically: true, encoding: .utf8)
        try "wal".write(toFile: folder.path("app.db-replaced-1/app.db-wal"), atomically: true, encoding: .utf8)
        try FileManager.default.linkItem(
            atPath: folder.path("app.db-replaced-1/app.db-wal"),
            toPath: folder.path("app.db-wal")
        )
        let result = try restore()
        #expect(result.code == 0, "\(result.errors)")
        #expect(try names == ["app.db", living, other, "app.db-replaced-1"])
        let kept = try FileManager.default.contentsOfDirectory(atPath: folder.path("app.db-replaced-1"))
        #expect(kept.sorted() == ["app.db", "app.db-wal"])
    }

    @Test func secondNamesOfADatabaseThatStayed() throws {
        try "database".write(toFile: folder.path("app.db"), atomically: true, encoding: .utf8)
        try "wal".write(toFile: folder.path("app.db-wal"), atomically: true, encoding: .utf8)
        try FileManager.default.createDirectory(
            atPath: folder.path("app.db-replaced-1"),
            withIntermediateDirectories: true
        )
        try FileManager.default.linkItem(
            atPath: folder.path("app.db-wal"),
            toPath: folder.path("app.db-replaced-1/app.db-wal")
        )
        #expect(try restore().code == 1, "the database is there")
        #expect(try names == ["app.db", "app.db-wal"])
    }

    @Test func mistakes() throws {
        let time = try restore("--at", "yesterday")
        #expect(time.code == 64)
        #expect(time.errors.contains("--at takes a time with its offset from UTC"))
        let url = try Tool.run(["restore", "/backup", "app.db"], in: folder)
        #expect(url.code == 64)
        #expect(url.errors.contains("or file:///backup for that folder"))
        let program = try Tool.run(["restore", "s3://b", "app.db", "--litestream", "nothing"], in: folder)
        #expect(program.errors.contains("./nothing: is not a program"))
    }
}
