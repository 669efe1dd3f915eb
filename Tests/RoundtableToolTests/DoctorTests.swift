import Foundation
import GRDB
import Roundtable
import RoundtableTestBasics
import Testing

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Each finding of `roundtable doctor`, provoked, and nothing changed by looking.
@Suite(.enabled(if: Shell.isInstalled, "needs the sqlite3 shell")) struct DoctorTests {
    private struct Outcome {
        let code: Int32
        let findings: [DatabaseDiagnosis.Finding]

        func finding(_ topic: DatabaseDiagnosis.Topic) -> DatabaseDiagnosis.Finding? {
            findings.first { $0.topic == topic }
        }
    }

    /// - parameter comparing: whether to see that nothing is changed. Not while this process has the database open: reading its files would
    ///   drop SQLite's locks (rule G5).
    private func diagnose(_ arguments: String..., in folder: Folder, comparing: Bool = false) throws -> Outcome {
        let before = try comparing ? folder.contents : [:]
        let result = try Tool.run(["doctor", "--json", "a.db"] + arguments, in: folder)
        let text = try Tool.run(["doctor", "a.db"] + arguments, in: folder)
        if comparing { #expect(try folder.contents == before) }
        let diagnosis = try JSONDecoder().decode(DatabaseDiagnosis.self, from: Data(result.output.utf8))
        // Of two moments.
        func ageless(_ text: String) -> String { text.replacing(/[0-9]+\.[0-9] s/, with: "some s") }
        for finding in diagnosis.findings {
            #expect(ageless(text.output).contains(ageless(finding.message)), "\(text.output)")
        }
        let expected: Int32 =
            switch diagnosis.severity {
            case .error: 2
            case .warning: 1
            case .info, .notice, nil: 0
            }
        #expect(result.code == expected && text.code == expected, "\(result.output)")
        let isIntact = arguments.contains("--check") && diagnosis.severity != .error && diagnosis.unknowns.isEmpty
        #expect(text.output.contains("The content is intact.") == isIntact, "\(text.output)")
        #expect(diagnosis.findings.map(\.severity) == diagnosis.findings.map(\.severity).sorted(by: >))
        return Outcome(code: result.code, findings: diagnosis.findings)
    }

    /// In WAL mode, with a table `t(x)`. A database whose only finding may be the bug of SQLite.
    private func open(_ folder: Folder, _ checkpointing: SharedDatabase.CheckpointPolicy = .manual) throws
        -> SharedDatabase
    {
        var options = SharedDatabase.Options()
        options.checkpointing = checkpointing
        let url = folder.url.appendingPathComponent("a.db")
        let db = try SharedDatabase.open(at: url, schema: .unmanaged, as: "app", options: options)
        try db.write { try $0.execute(sql: "CREATE TABLE IF NOT EXISTS t(x)") }
        return db
    }

    private static let fill = """
        WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < %d)
        INSERT INTO t SELECT randomblob(3500) FROM n
        """

    private func fill(_ db: SharedDatabase, pages: Int) throws {
        try db.write { try $0.execute(sql: String(format: Self.fill, pages)) }
    }

    @Test func `A healthy database has at most the notice about its SQLite`() throws {
        let folder = try Folder()
        let db = try open(folder)
        let outcome = try diagnose("--check", "--full", in: folder)
        #expect(outcome.findings.map(\.topic) == (SQLiteVersion.current.hasWALResetBug ? [.walResetBug] : []))
        #expect(outcome.findings.allSatisfy { $0.severity == .notice })
        try db.close()
    }

    @Test(.enabled(if: SQLiteVersion.current.hasWALResetBug, "this SQLite does not have the WAL-reset bug"))
    func `Strangers make the bug of SQLite a warning`() throws {
        let folder = try Folder()
        let db = try open(folder)
        let shell = try Shell(folder, "a.db")
        try shell.execute("SELECT * FROM t;")
        let finding = try diagnose(in: folder).finding(.walResetBug)
        #expect(finding?.severity == .warning)
        #expect(finding?.processes.map(\.pid) == [shell.pid])
        shell.kill()
        try db.close()
    }

    /// A participant has the database open for a moment before it joins, and after it has left.
    @Test func `Programs that come and go are no strangers`() throws {
        let folder = try Folder()
        try open(folder).close()
        let stop = folder.url.appendingPathComponent("stop")
        let insert = "'\(try Tool.url.path)' sql a.db 'INSERT INTO t VALUES (1)' >/dev/null"
        let arguments = ["-c", "until [ -e stop ]; do \(insert); done"]
        let shell = URL(fileURLWithPath: "/bin/sh")
        var loops: [Process] = []
        defer {
            _ = FileManager.default.createFile(atPath: stop.path, contents: nil)
            loops.forEach { $0.waitUntilExit() }
        }
        for _ in 0..<2 {
            loops.append(
                try Tool.start(arguments, in: folder.url, program: shell, output: Pipe(), errors: Pipe())
            )
        }
        for _ in 0..<10 {
            let result = try Tool.run("doctor", "--json", "a.db", in: folder)
            let findings = try JSONDecoder().decode(DatabaseDiagnosis.self, from: Data(result.output.utf8)).findings
            #expect(!findings.contains { $0.topic == .strangerWrites }, "\(findings)")
            #expect(!findings.contains { $0.topic == .walResetBug && $0.severity == .warning }, "\(findings)")
        }
    }

    @Test func `A stranger that writes is named`() throws {
        let folder = try Folder()
        let db = try open(folder)
        let shell = try Shell(folder, "a.db")
        try shell.execute("BEGIN IMMEDIATE; INSERT INTO t VALUES (2);")
        let finding = try diagnose(in: folder).finding(.strangerWrites)
        #expect(finding?.severity == .warning && finding?.processes.first?.name == "sqlite3")
        shell.kill()
        try db.close()
    }

    @Test func `A WAL that no process checkpoints`() throws {
        let folder = try Folder()
        let db = try open(folder)
        try fill(db, pages: 1100)
        let due = try diagnose(in: folder)
        #expect(due.finding(.notCheckpointed)?.severity == .warning)
        #expect(due.finding(.longWAL) == nil)
        try fill(db, pages: 4000)
        #expect(try diagnose(in: folder).finding(.longWAL)?.severity == .warning)
        try db.checkpoint(.restart)
        try fill(db, pages: 1)
        let copied = try diagnose(in: folder)
        #expect(copied.finding(.longWAL)?.severity == .notice)
        #expect(copied.finding(.notCheckpointed) == nil)
        try db.close()
    }

    @Test func `A long WAL without its index`() throws {
        let folder = try Folder()
        let db = try open(folder)
        try fill(db, pages: 4200)
        for suffix in ["", "-wal"] {
            try FileManager.default.copyItem(atPath: folder.path("a.db\(suffix)"), toPath: folder.path("b.db\(suffix)"))
        }
        let result = try Tool.run("doctor", "--json", "b.db", in: folder)
        let diagnosis = try JSONDecoder().decode(DatabaseDiagnosis.self, from: Data(result.output.utf8))
        #expect(diagnosis.findings.contains { $0.topic == .missingWALIndex && $0.severity == .warning })
        #expect(result.code == 1)
        try db.close()
    }

    @Test func `A long WAL that no process has open comes with the command that empties it`() throws {
        let folder = try Folder()
        try Shell.make("a.db", in: folder, wal: true)
        let shell = try Shell(folder, "a.db")
        try shell.execute("PRAGMA wal_autocheckpoint = 0; \(String(format: Self.fill, 4200));")
        shell.kill()
        let finding = try #require(try diagnose(in: folder, comparing: true).finding(.longWAL))
        #expect(finding.severity == .warning && finding.location.hasSuffix("a.db-wal"))
        let command = try #require(finding.advice.firstMatch(of: /roundtable (sql .*\(TRUNCATE\)')$/)?.1)
        let tool = try Tool.url.path.shellQuoted
        let emptied = try Tool.run(
            ["-c", "\(tool) \(command)"],
            in: folder,
            program: URL(fileURLWithPath: "/bin/sh")
        )
        #expect(emptied.code == 0, "\(emptied)")
        #expect(try diagnose(in: folder, comparing: true).finding(.longWAL) == nil)
        #expect(
            try Tool.run("sql", "a.db", "SELECT COUNT(*) > 4000 AS c FROM t", "--json", in: folder).output
                == "{\"c\":1}\n"
        )
    }

    /// Each finding has its advice in JSON, and a text says it once.
    @Test func `Advice that several findings have is said once`() throws {
        let folder = try Folder()
        let db = try open(folder)
        for suffix in ["-wal", "-shm"] { chmod(folder.path("a.db\(suffix)"), 0o600) }
        let findings = try diagnose(in: folder).findings.filter { $0.topic == .permissions }
        #expect(findings.count == 2 && Set(findings.map(\.advice)).count == 1, "\(findings)")
        let text = try Tool.run("doctor", "a.db", in: folder).output
        #expect(text.ranges(of: findings[0].advice).count == 1, "\(text)")
        let (last, advice) = (text.range(of: "a.db-shm\n"), text.range(of: findings[0].advice))
        #expect(try #require(last).upperBound < #require(advice).lowerBound, "\(text)")
        try db.close()
    }

    @Test func `A long read is named`() throws {
        let folder = try Folder()
        let db = try open(folder)
        let (snapshot, line) = (try db.makeSnapshot(), #line)
        try fill(db, pages: 4200)
        let outcome = try diagnose(in: folder)
        let finding = outcome.finding(.longRead)
        #expect(finding?.severity == .warning && finding?.processes.first?.name == "app")
        let site = "RoundtableToolTests/DoctorTests.swift:\(line)"
        #expect(
            finding?.advice
                == "End the read that began at \(site): shorten its closure, or advance or close the snapshot."
        )
        // A process prevents the checkpoint.
        #expect(outcome.finding(.notCheckpointed) == nil)
        try snapshot.close()
        try db.close()
    }

    @Test func `The dead and the frozen are distinguished`() throws {
        let folder = try Folder()
        let db = try open(folder)
        let (input, output, errors) = (Pipe(), Pipe(), Pipe())
        // Writes, and waits for the rest of the script.
        let process = try Tool.start(
            [
                "sql", "a.db", "--as", "import",
                "BEGIN; INSERT INTO t VALUES (1); WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n) INSERT INTO t SELECT 1 FROM n WHERE n < 0; COMMIT",
            ],
            in: folder.url,
            input: input,
            output: output,
            errors: errors
        )
        defer {
            kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
        }
        let pid = process.processIdentifier
        func until(_ condition: () throws -> Bool) throws {
            let deadline = ContinuousClock.now + .seconds(20)
            while try !condition() { try #require(ContinuousClock.now < deadline, "in vain") }
        }
        let url = folder.url.appendingPathComponent("a.db")
        try until { try DatabaseStatus(ofDatabaseAt: url).writeLock?.pid == pid }
        kill(pid, SIGSTOP)
        try until { try DatabaseStatus(ofDatabaseAt: url).participants.contains { $0.liveness == .stopped } }
        let frozen = try diagnose(in: folder).finding(.frozenParticipant)
        #expect(frozen?.severity == .error && frozen?.processes.map(\.pid) == [pid])
        #expect(frozen?.message.contains("the write lock: no other process can write") == true)
        kill(pid, SIGKILL)
        process.waitUntilExit()
        let outcome = try diagnose(in: folder)
        #expect(outcome.finding(.deadParticipant)?.severity == .notice)
        #expect(outcome.finding(.frozenParticipant) == nil)
        try db.close()
    }

    private static let python = URL(fileURLWithPath: "/usr/bin/python3")
    private static let hasPython = FileManager.default.isExecutableFile(atPath: python.path)

    @Test(.long(), .enabled(if: hasPython, "/usr/bin/python3 is not installed"))
    func `A stranger that is stopped in a checkpoint is named`() throws {
        let folder = try Folder()
        let db = try open(folder)
        // SQLite's CKPT lock.
        let script = """
            import fcntl, os, signal
            file = open("a.db-shm", "r+b")
            fcntl.lockf(file, fcntl.LOCK_EX, 1, 121)
            os.kill(os.getpid(), signal.SIGSTOP)
            """
        let process = try Tool.start(
            ["-c", script],
            in: folder.url,
            program: Self.python,
            input: Pipe(),
            output: Pipe(),
            errors: Pipe()
        )
        let pid = process.processIdentifier
        defer {
            kill(pid, SIGKILL)
            process.waitUntilExit()
        }
        let url = folder.url.appendingPathComponent("a.db")
        let deadline = ContinuousClock.now + .seconds(20)
        while try DatabaseStatus(ofDatabaseAt: url).wal?.checkpointLock?.liveness != .stopped {
            try #require(ContinuousClock.now < deadline, "it never stopped with the lock")
        }
        let finding = try #require(try diagnose(in: folder).finding(.frozenCheckpointer))
        #expect(finding.severity == .error && finding.processes.map(\.pid) == [pid])
        #expect(finding.processes.map(\.liveness) == [.stopped])
        #expect(
            finding.message.contains(
                "(pid \(pid)) is stopped, and holds SQLite's lock for checkpoints: no other process can"
            )
        )
        #expect(finding.advice == "Continue it (kill -CONT \(pid)) or end it.")
        let status = try Tool.run("status", "a.db", in: folder).output
        let lines = status.split(separator: "\n")
        #expect(lines.contains { $0.contains("  ! ") && $0.contains("(pid \(pid), stopped)") }, "\(status)")
        #expect(lines.dropFirst().first?.hasPrefix("  ✗ ") == true, "\(status)")
        #expect(lines.dropFirst(2).first == "    \(finding.advice)", "\(status)")
        try db.close()
    }

    @Test(arguments: ["xxxxxxxxxxxx", "RNDTABLE\u{9}\0\0\0"])
    func `A control block that cannot be used`(bytes: String) throws {
        let folder = try Folder()
        try open(folder).close()
        let url = folder.url.appendingPathComponent("a.db")
        let block = try DatabaseStatus(ofDatabaseAt: url).controlBlock.path
        try Data(bytes.utf8).write(to: URL(fileURLWithPath: block))
        let finding = try diagnose(in: folder, comparing: true).finding(.controlBlock)
        #expect(
            finding?.severity == .warning && finding?.message.contains("damaged") == true,
            "\(finding?.message ?? "")"
        )
    }

    @Test func `No control block, and not in WAL mode`() throws {
        let folder = try Folder()
        try Shell.make("a.db", in: folder, wal: false)
        let outcome = try diagnose(in: folder, comparing: true)
        #expect(outcome.finding(.controlBlock)?.severity == .notice)
        // A backup is such a file.
        #expect(outcome.finding(.notInWALMode)?.severity == .notice)
        #expect(outcome.finding(.walResetBug) == nil)
        // A process uses it.
        let queue = try DatabaseQueue(path: folder.path("a.db"))
        try queue.inDatabase { db in
            try db.execute(sql: "BEGIN; SELECT * FROM t")
            #expect(try diagnose(in: folder).finding(.notInWALMode)?.severity == .warning)
            try db.execute(sql: "COMMIT")
        }
        try queue.close()
    }

    @Test func `Companion files of another mode`() throws {
        let folder = try Folder()
        let db = try open(folder)
        chmod(folder.path("a.db-wal"), 0o600)
        let finding = try diagnose(in: folder).finding(.permissions)
        #expect(finding?.severity == .warning && finding?.location.hasSuffix("a.db-wal") == true)
        try db.close()
    }

    @Test func `Names, contents, places that cannot be`() throws {
        let folder = try Folder()
        try Shell.make("a.db", in: folder, wal: true)
        link(folder.path("a.db"), folder.path("b.db"))
        #expect(try diagnose(in: folder, comparing: true).finding(.hardLinks)?.severity == .error)
        unlink(folder.path("b.db"))
        try Data(repeating: 7, count: 4096).write(to: folder.url.appendingPathComponent("a.db"))
        #expect(try diagnose(in: folder, comparing: true).finding(.notADatabase)?.severity == .error)
        // A file that was cut off within its header.
        try Data("SQLite format 3\0\u{10}".utf8).write(to: folder.url.appendingPathComponent("a.db"))
        #expect(try diagnose(in: folder, comparing: true).finding(.notADatabase)?.severity == .error)
        // One that was cut off after its first page.
        unlink(folder.path("a.db"))
        try Shell.make("a.db", in: folder, wal: false)
        try #require(truncate(folder.path("a.db"), 4096) == 0)
        #expect(try diagnose(in: folder, comparing: true).finding(.corrupt)?.severity == .error)
        let missing = try Tool.run("doctor", "c.db", in: folder)
        #expect(missing.code == 2 && missing.output.isEmpty)
        #expect(missing.errors.contains("there is no such file"))
        #expect(try Tool.run("doctor", "a.db", "--full", in: folder).code == 64)
    }

    #if os(Linux)
        /// **Rule W5**: beside a mount of the file alone, each side would have a -wal file of its own.
        @Test(
            .enabled(
                if: getuid() == 0 && FileManager.default.isExecutableFile(atPath: "/usr/bin/unshare"),
                "needs root and unshare"
            )
        )
        func `A file that is mounted without its folder`() throws {
            let folder = try Folder()
            try Shell.make("a.db", in: folder, wal: true)
            try FileManager.default.createDirectory(atPath: folder.path("inside"), withIntermediateDirectories: false)
            try Data().write(to: URL(fileURLWithPath: folder.path("inside/b.db")))
            /// Runs the tool where `target` is another mount of `source`.
            func inside(_ source: String, _ target: String, _ arguments: String) throws -> Tool.Result {
                let tool = try Tool.url.path
                let script =
                    "mount --bind '\(folder.path(source))' '\(folder.path(target))' && exec '\(tool)' \(arguments)"
                return try Tool.run(
                    ["-m", "/bin/sh", "-c", script],
                    in: folder,
                    program: URL(fileURLWithPath: "/usr/bin/unshare")
                )
            }
            let doctor = try inside("a.db", "inside/b.db", "doctor inside/b.db --json")
            #expect(doctor.output.contains("single_file_mount") && doctor.code == 2, "\(doctor)")
            try FileManager.default.createSymbolicLink(atPath: folder.path("c.db"), withDestinationPath: "inside/b.db")
            for path in ["inside/b.db", "c.db"] {
                let write = try inside("a.db", "inside/b.db", "sql \(path) 'CREATE TABLE lost (a)'")
                #expect(write.code == 1 && write.errors.contains("is mounted by itself"), "\(write.errors)")
            }
            // Nothing was created beside it, and the folder may be mounted.
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path("inside")) == ["b.db"])
            try FileManager.default.createDirectory(atPath: folder.path("mounted"), withIntermediateDirectories: false)
            #expect(try inside(".", "mounted", "sql mounted/a.db 'CREATE TABLE kept (a)'").code == 0)
        }
    #endif

    @Test func `A corrupt database is found by the check alone`() throws {
        let folder = try Folder()
        try Shell.make("a.db", in: folder, wal: true)
        // The number of rows on the page of the table.
        let file = try FileHandle(forUpdating: folder.url.appendingPathComponent("a.db"))
        try file.seek(toOffset: 4096 + 3)
        try file.write(contentsOf: [0, 9])
        try file.close()
        #expect(try diagnose(in: folder, comparing: true).finding(.corrupt) == nil)
        let finding = try diagnose("--check", in: folder, comparing: true).finding(.corrupt)
        #expect(finding?.severity == .error)
    }

    /// Only databases for whose readers iOS kills are reported, and only in the container of an App Group. A FIFO, as Realm has, is not
    /// opened.
    @Test func `Other databases in the container of an App Group`() throws {
        let folder = try Folder()
        let names = ["Containers/Shared/AppGroup/1", "elsewhere"]
        for name in names {
            let container = folder.url.appendingPathComponent(name)
            try FileManager.default.createDirectory(at: container, withIntermediateDirectories: true)
            let url = container.appendingPathComponent("a.db")
            try SharedDatabase.open(at: url, schema: .unmanaged, as: "app").close()
            for mode in ["delete", "wal"] {
                let queue = try DatabaseQueue(path: container.appendingPathComponent("\(mode).db").path)
                try queue.inDatabase { try $0.execute(sql: "PRAGMA journal_mode = \(mode); CREATE TABLE t(x)") }
                try queue.close()
            }
            let noise = Data((0..<4096).map { UInt8(truncatingIfNeeded: $0 &* 37 &+ 11) })
            for file in ["secret.db", "vault.db", "noise", "odd.db"] {
                try noise.write(to: container.appendingPathComponent(file))
            }
            for file in ["secret.db-wal", "vault.db-journal", "odd.db"] {
                try Data([1]).write(to: container.appendingPathComponent(file))
            }
            try #require(mkfifo(container.appendingPathComponent("default.realm.note").path, 0o600) == 0)
        }
        let outcomes = try names.map { name in
            let result = try Tool.run("doctor", "--json", "\(name)/a.db", in: folder)
            return try JSONDecoder().decode(DatabaseDiagnosis.self, from: Data(result.output.utf8)).findings
                .filter { $0.topic == .otherLocks }
        }
        let (found, elsewhere) = (outcomes[0], outcomes[1])
        #expect(found.count == 2 && found.allSatisfy { $0.severity == .notice } && elsewhere.isEmpty, "\(outcomes)")
        #expect(found.first?.message.hasPrefix("1 file of Realm is in") == true)
        #expect(
            found.last?.message.hasPrefix("3 other databases of SQLite in the App Group's container are not in WAL")
                == true
        )
        #expect(found.last?.location.hasSuffix("/AppGroup/1/delete.db") == true)
    }
}
