import Foundation
import GRDB
import Roundtable
import RoundtableTestBasics
import Testing

@Suite(.enabled(if: Shell.isInstalled, "needs the sqlite3 shell")) struct StatusTests {
    @Test(arguments: [false, true])
    func `Looking at a database that no process has open changes nothing`(wal: Bool) throws {
        let folder = try Folder()
        try Shell.make("a.db", in: folder, wal: wal)
        let before = try folder.contents
        let status = try Tool.run("status", "--json", "a.db", in: folder)
        #expect(status.code == 0, "\(status.errors)")
        #expect(status.json?["journal_mode"] as? String == (wal ? "wal" : "rollback"))
        #expect((status.json?["control_block"] as? [String: Any])?["state"] as? String == "absent")
        #expect((status.json?["schema"] as? [String: Any])?["table_count"] as? Int == 1)
        #expect(try Tool.run("status", "a.db", in: folder).code == 0)
        #expect(try folder.contents == before)
    }

    @Test(arguments: [false, true])
    func `The version of SQLite is named, and its bug where it matters`(wal: Bool) throws {
        let folder = try Folder()
        try Shell.make("a.db", in: folder, wal: wal)
        // The tool runs with the library that the tests run with.
        let version = SQLiteVersion.current
        let json = try Tool.run("status", "--json", "a.db", in: folder).json
        #expect(json?["sqlite_version"] as? String == "\(version)")
        #expect(json?["sqlite_has_wal_reset_bug"] as? Bool == version.hasWALResetBug)
        let warning = wal && version.hasWALResetBug ? ", with the WAL-reset bug: leave checkpoints to Roundtable" : ""
        let text = try Tool.run("status", "a.db", in: folder).output
        #expect(text.contains("  sqlite         \(version)\(warning)\n"), "\(text)")
    }

    @Test(arguments: [false, true])
    func `A stranger in a write transaction is named`(wal: Bool) throws {
        let folder = try Folder()
        try Shell.make("a.db", in: folder, wal: wal)
        let shell = try Shell(folder, "a.db")
        try shell.execute("BEGIN IMMEDIATE; INSERT INTO t VALUES (2);")
        let before = try folder.contents
        let writer = try Tool.run("status", "--json", "a.db", in: folder).json?["write_lock"] as? [String: Any]
        #expect(writer?["pid"] as? Int == Int(shell.pid))
        #expect(writer?["name"] as? String == "sqlite3")
        #expect(writer?["is_participant"] as? Bool == false)
        #expect(try folder.contents == before)
        shell.kill()
    }

    @Test func `What cannot be found out is said`() throws {
        let folder = try Folder()
        try Shell.make("a.db", in: folder, wal: false)
        let shell = try Shell(folder, "a.db")
        try shell.execute("BEGIN EXCLUSIVE;")
        let status = try Tool.run("status", "a.db", in: folder)
        #expect(status.code == 0)
        #expect(status.output.contains("The schema: the database is locked."))
        #expect(status.output.contains("'sqlite3' (pid \(shell.pid)), which does not take turns"))
        shell.kill()
    }

    @Test func `A WAL that a crash left behind is left as it is`() throws {
        let folder = try Folder()
        try Shell.make("a.db", in: folder, wal: true)
        let shell = try Shell(folder, "a.db")
        try shell.execute("INSERT INTO t VALUES (2);")
        let live = try Tool.run("status", "--json", "a.db", in: folder)
        #expect((live.json?["wal"] as? [String: Any])?["committed_frames"] as? Int == 1)
        shell.kill()

        for leftovers in ["-wal and -shm", "-wal"] {
            if leftovers == "-wal" { try FileManager.default.removeItem(atPath: folder.path("a.db-shm")) }
            let before = try folder.contents
            let status = try Tool.run("status", "--json", "a.db", in: folder)
            #expect(status.code == 0)
            #expect((status.json?["unknowns"] as? [String])?.count == 1, "\(leftovers): \(status.output)")
            #expect(try folder.contents == before, "\(leftovers)")
        }
        // A read needs the WAL, and sees it.
        let rows = try Tool.run("sql", "--json", "a.db", "SELECT COUNT(*) AS n FROM t", in: folder)
        #expect(rows.output == "{\"n\":2}\n")
    }

    @Test func `A process that holds the WAL back is named`() throws {
        let folder = try Folder()
        let url = folder.url.appendingPathComponent("a.db")
        let db = try SharedDatabase.open(at: url, schema: .unmanaged, as: "widget")
        let (snapshot, line) = (try db.makeSnapshot(), #line)
        try db.write { try $0.execute(sql: "CREATE TABLE t(x)") }
        let status = try Tool.run("status", "a.db", in: folder)
        let pid = ProcessInfo.processInfo.processIdentifier
        #expect(status.output.contains("  'widget' (pid \(pid)) has been reading one moment for "))
        #expect(status.output.contains(", since RoundtableToolTests/StatusTests.swift:\(line), and holds "))
        #expect(status.output.contains(" WAL frames back\n"))
        for _ in 0..<4100 { try db.write { try $0.execute(sql: "INSERT INTO t VALUES (1)") } }
        // What is worst comes first, with what helps.
        let verdict = try Tool.run("status", "a.db", in: folder).output.split(separator: "\n").dropFirst()
        #expect(
            verdict.first?.hasPrefix("  ! 'widget' (pid \(pid)) has been reading one moment for ") == true,
            "\(verdict)"
        )
        #expect(verdict.dropFirst().first?.hasPrefix("    End the read that began at ") == true, "\(verdict)")
        let more = verdict.dropFirst(2).first
        #expect(more?.hasPrefix("    1 more: ") == true && more?.hasSuffix(" doctor \(url.path)") == true, "\(verdict)")
        let json = try Tool.run("status", "--json", "a.db", in: folder).json
        let warnings = json?["warnings"] as? [[String: Any]]
        #expect(warnings?.map { $0["id"] as? String } == ["long_read", "long_wal"])
        let participants = json?["participants"] as? [[String: Any]]
        let read = participants?.first?["oldest_read"] as? [String: Any]
        #expect(read?["held_frames"] as? Int ?? 0 > 4000 && read?["is_past_limit"] as? Bool == true)
        #expect(read?["age_s"] as? Double ?? 0 > 0)
        try snapshot.close()
        try db.checkpoint(.restart)
        let well = try Tool.run("status", "a.db", in: folder).output
        #expect(well.hasPrefix("\(url.path)\n\n  ✓ Nothing is wrong.\n\n"), "\(well)")
        // A connection of a participant that shows nothing. So few frames are nothing to worry about.
        let queue = try DatabaseQueue(path: url.path)
        try queue.inDatabase { reading in
            try reading.execute(sql: "BEGIN; SELECT * FROM t LIMIT 1")
            try db.write { try $0.execute(sql: "INSERT INTO t VALUES (1)") }
            // While this process makes a checkpoint, its read marks do not count (rule W7).
            let text = Shared("")
            waitUntil("the holder is named") {
                guard let status = try? Tool.run("status", "a.db", in: folder) else { return false }
                text.change { $0 = status.output }
                return status.output.contains("\n  'widget' (pid \(pid)) holds ")
            }
            #expect(!text.value.contains("  ! "), "\(text.value)")
            try reading.execute(sql: "COMMIT")
        }
        try queue.close()
    }

    private struct Note: OutboxCommand {
        static let name = "note"
        static let version = 1
        var text = "text"
    }

    @Test func `What waits in the outbox is shown, and for which process`() throws {
        let folder = try Folder()
        let url = folder.url.appendingPathComponent("a.db")
        func status(_ arguments: String...) throws -> (text: String, outbox: [String: Any]?) {
            let text = try Tool.run(["status", "a.db"] + arguments, in: folder)
            let json = try Tool.run(["status", "a.db", "--json"] + arguments, in: folder)
            return (text.output, json.json?["outbox"] as? [String: Any])
        }
        let reader = try SharedDatabase.open(at: url, schema: .unmanaged, as: "tool")
        var found = try status()
        #expect(found.outbox == nil && !found.text.contains("outbox"))
        let outbox = try CommandOutbox(forDatabaseAt: url, as: "widget")
        for _ in 0..<2 { try outbox.submit(Note()) }
        found = try status()
        #expect(found.outbox?["waiting"] as? Int == 2 && found.outbox?["bytes"] as? Int ?? 0 > 256)
        #expect(found.outbox?["oldest"] is String && found.outbox?["dead_letters"] as? Int == 0)
        #expect(found.text.contains("outbox         2 commands ("))
        #expect(found.text.contains("look at the commands: ") && found.text.contains(" outbox "))

        var options = SharedDatabase.Options()
        var handlers = OutboxHandlers()
        handlers.retries.maximumAttempts = 1
        struct Refused: Error {}
        handlers.handle(Note.self) { _, _ in throw Refused() }
        options.outbox = handlers
        let owner = try SharedDatabase.open(at: url, schema: .unmanaged, as: "app", options: options)
        found = try status()
        #expect(found.outbox?["waiting"] as? Int == 0 && found.outbox?["dead_letters"] as? Int == 2)
        #expect(found.text.contains("nothing waits · 2 set aside"), "\(found.text)")
        #if os(Linux)
            let pid = ProcessInfo.processInfo.processIdentifier
            // Both are of this process, and one of them applies commands.
            let owners = found.outbox?["owners"] as? [[String: Any]]
            #expect(owners?.isEmpty == false && owners?.allSatisfy { $0["pid"] as? Int == Int(pid) } == true)
            #expect(owners?.map { $0["name"] as? String } == ["app"])
            #expect(found.text.contains("set aside · applied by 'app' (pid \(pid))"), "\(found.text)")
            try reader.close()
            #expect(owner.suspend(deadline: .now + .seconds(10)).isReleased)
            try outbox.submit(Note())
            #expect(try status().text.contains("applied by 'app' (pid \(pid)), suspended or stopped"))
            owner.resume()
        #endif
        try owner.close()

        // Elsewhere.
        let other = folder.url.appendingPathComponent("box")
        try CommandOutbox(at: other, as: "widget").submit(Note())
        let elsewhere = try status("--folder", "box")
        #expect(elsewhere.outbox?["waiting"] as? Int == 1 && elsewhere.text.contains("--folder"))
        let doctor = try Tool.run("doctor", "a.db", "--folder", "box", in: folder)
        #expect(
            doctor.code == 1 && doctor.output.contains("1 command (")
                && doctor.output.contains(" commands were set aside")
        )
    }

    @Test func `A participant that is suspended is shown`() throws {
        let folder = try Folder()
        let url = folder.url.appendingPathComponent("a.db")
        let db = try SharedDatabase.open(at: url, schema: .unmanaged, as: "app")
        func status() throws -> (text: String, state: String?) {
            let participants =
                try Tool.run("status", "--json", "a.db", in: folder).json?["participants"] as? [[String: Any]]
            return (try Tool.run("status", "a.db", in: folder).output, participants?.first?["state"] as? String)
        }
        #expect(try !status().text.contains("suspended") && status().state == "present")
        #expect(db.suspend(deadline: .now + .seconds(10)).isReleased)
        let suspended = try status()
        #expect(suspended.state == "suspended" && suspended.text.contains("  app   writer  suspended "))
        db.resume()
        #expect(try !status().text.contains("suspended") && status().state == "present")
    }

    @Test(arguments: ["xxxxxxxxxxxx", "RNDTABLE\u{9}\0\0\0"])
    func `A control block that cannot be used is named`(bytes: String) throws {
        let folder = try Folder()
        try Tool.run("sql", "a.db", "CREATE TABLE t(x)", in: folder)
        let url = folder.url.appendingPathComponent("a.db")
        let block = try DatabaseStatus(ofDatabaseAt: url).controlBlock.path
        try Data(bytes.utf8).write(to: URL(fileURLWithPath: block))
        let status = try Tool.run("status", "--json", "a.db", in: folder)
        #expect(status.code == 0)
        #expect((status.json?["control_block"] as? [String: Any])?["state"] as? String == "damaged")
        #expect((status.json?["unknowns"] as? [String])?.contains { $0.hasPrefix("The participants") } == true)
    }

    /// Programs of two layout versions do not queue with each other (rule L1).
    @Test func `Control blocks of other versions are named`() throws {
        let folder = try Folder()
        let url = folder.url.appendingPathComponent("a.db")
        let db = try SharedDatabase.open(at: url, schema: .unmanaged, as: "app")
        let block = try DatabaseStatus(ofDatabaseAt: url).controlBlock
        #expect(block.path.hasSuffix("a.db-coord\(try #require(block.layoutVersion))"))
        // As an earlier version would have it: without a number, and with the same slots.
        var bytes = try Data(contentsOf: URL(fileURLWithPath: block.path))
        bytes[8] = 3
        try bytes.write(to: folder.url.appendingPathComponent("a.db-coord"))
        let used = try Tool.run("status", "a.db", in: folder).output
        #expect(used.contains("  other blocks   layout version 3, pid \(getpid())\n"), "\(used)")
        let json = try Tool.run("status", "--json", "a.db", in: folder).json
        let others = json?["other_control_blocks"] as? [[String: Any]]
        #expect(others?.count == 1 && others?.first?["layout_version"] as? Int == 3)
        #expect(others?.first?["pids"] as? [Int] == [Int(getpid())])
        func finding() throws -> String { try Tool.run("doctor", "a.db", in: folder).output }
        #expect(try finding().contains("A control block of layout version 3 is in use"))
        #expect(db.uncoordinatedReason == nil)
        try db.close()
        bytes = try Data(contentsOf: URL(fileURLWithPath: block.path))
        bytes[8] = 3
        try bytes.write(to: folder.url.appendingPathComponent("a.db-coord"))
        #expect(try Tool.run("status", "a.db", in: folder).output.contains("layout version 3, used by no process"))
        let left = try finding()
        #expect(left.contains("A control block of layout version 3 was left behind"), "\(left)")
    }
}
