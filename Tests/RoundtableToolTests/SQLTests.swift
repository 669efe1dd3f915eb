import Foundation
import RoundtableTestBasics
import RoundtableTestSupport
import Testing

@Suite struct SQLTests {
    @Test func `Rows are aligned, NULL and BLOB unmistakable`() throws {
        let folder = try Folder()
        let sql =
            "SELECT 1 AS id, 'Arthur' AS name, x'6869' AS data UNION ALL SELECT 20, NULL, NULL UNION ALL SELECT 3, 'NULL', ''"
        let result = try Tool.run("sql", "a.db", "CREATE TABLE t(x); \(sql)", in: folder)
        #expect(result.code == 0, "\(result.errors)")
        #expect(
            result.output == """
                id  name    data
                ──  ──────  ───────
                 1  Arthur  x'6869'
                20  NULL    NULL
                 3  'NULL'  ''

                """
        )
    }

    @Test func `JSON has one object a line, and columns of the same name are numbered`() throws {
        let folder = try Folder()
        let sql = "SELECT 1 AS a, 2 AS a, 'q\"\n' AS t, NULL AS n, x'6869' AS b, 1e999 AS i, 1.0 AS r; SELECT 3 AS c"
        let result = try Tool.run("sql", "--json", "a.db", "CREATE TABLE t(x); \(sql)", in: folder)
        #expect(
            result.output == """
                {"a":1,"a_2":2,"t":"q\\"\\n","n":null,"b":{"base64":"aGk="},"i":1e999,"r":1.0}
                {"c":3}

                """
        )
    }

    @Test func `Statements that write run in one transaction`() throws {
        let folder = try Folder()
        try Tool.run("sql", "a.db", "CREATE TABLE t(x)", in: folder)
        let result = try Tool.run(
            "sql",
            "a.db",
            "INSERT INTO t VALUES (1)",
            "INSERT INTO nowhere VALUES (1)",
            in: folder
        )
        #expect(result.code == 1)
        #expect(result.errors.contains("no such table: nowhere"))
        let unfinished = try Tool.run("sql", "a.db", "BEGIN; INSERT INTO t VALUES (1)", in: folder)
        #expect(unfinished.code == 1)
        #expect(unfinished.errors.contains("rolled back"))
        let own = try Tool.run("sql", "a.db", "BEGIN; INSERT INTO t VALUES (1); COMMIT; ROLLBACK", in: folder)
        #expect(own.code == 1)
        #expect(
            try Tool.run("sql", "--json", "a.db", "SELECT COUNT(*) AS n FROM t", in: folder).output == "{\"n\":1}\n"
        )
    }

    @Test func `Parameters arrive`() throws {
        let folder = try Folder()
        let result = try Tool.run(
            [
                "sql", "a.db", "CREATE TABLE t(a, b); INSERT INTO t VALUES (?, :b) RETURNING a, b", "--json",
                "--param", "it's", "--param", ":b=-5",
            ],
            in: folder
        )
        #expect(result.output == "{\"a\":\"it's\",\"b\":-5}\n")
    }

    @Test(.enabled(if: Shell.isInstalled, "needs the sqlite3 shell"), arguments: [false, true])
    func `Reading changes nothing`(wal: Bool) throws {
        let folder = try Folder()
        try Shell.make("a.db", in: folder, wal: wal)
        let before = try folder.contents
        for flags in [[], ["--read-only"]] {
            let sql = "SELECT x FROM t; PRAGMA journal_mode; EXPLAIN INSERT INTO t VALUES (1)"
            let result = try Tool.run(["sql", "a.db", sql, "--json"] + flags, in: folder)
            #expect(result.code == 0, "\(result.errors)")
            #expect(result.output.hasPrefix("{\"x\":1}\n{\"journal_mode\":\"\(wal ? "wal" : "delete")\"}\n"))
        }
        let refused = try Tool.run("sql", "--read-only", "a.db", "INSERT INTO t VALUES (1)", in: folder)
        #expect(refused.code == 1)
        #expect(refused.errors.contains("opened read-only"))
        #expect(try folder.contents == before)
    }

    @Test(.enabled(if: Shell.isInstalled, "needs the sqlite3 shell"))
    func `Writing switches to WAL, and says so once`() throws {
        let folder = try Folder()
        try Shell.make("a.db", in: folder, wal: false)
        let first = try Tool.run("sql", "a.db", "INSERT INTO t VALUES (2)", in: folder)
        #expect(
            first.errors
                == "roundtable: \(folder.path("a.db")): switched from rollback journal to WAL, which sharing needs.\n"
        )
        #expect(first.output == "1 row changed\n")
        #expect(try Tool.run("sql", "a.db", "INSERT INTO t VALUES (3)", in: folder).errors == "")
    }

    @Test(.enabled(if: Shell.isInstalled, "needs the sqlite3 shell"), arguments: [false, true])
    func `The holder of the write lock is named`(wal: Bool) throws {
        let folder = try Folder()
        try Shell.make("a.db", in: folder, wal: wal)
        let shell = try Shell(folder, "a.db")
        try shell.execute("BEGIN IMMEDIATE; INSERT INTO t VALUES (2);")
        let read = try Tool.run("sql", "--json", "a.db", "SELECT COUNT(*) AS n FROM t", in: folder)
        #expect(read.output == "{\"n\":1}\n", "\(read.errors)")
        let write = try Tool.run("sql", "--timeout", "0.1", "a.db", "INSERT INTO t VALUES (3)", in: folder)
        #expect(write.code == 1)
        #expect(write.errors.contains("a.db: ") && write.errors.contains("'sqlite3' (pid \(shell.pid))"))
        #expect(write.errors.split(separator: "\n").count == 1)
        shell.kill()
    }

    @Test(.enabled(if: Shell.isInstalled, "needs the sqlite3 shell"))
    func `A transaction that was cut short is undone by the next writer`() throws {
        let folder = try Folder()
        try Shell.make("a.db", in: folder, wal: false)
        let shell = try Shell(folder, "a.db")
        // A cache of one page is written to the file before the commit.
        let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100)"
        try shell.execute("PRAGMA cache_size = 1; BEGIN; INSERT INTO t \(numbers) SELECT zeroblob(5000) FROM n;")
        shell.kill()
        let read = try Tool.run("sql", "a.db", "SELECT COUNT(*) FROM t", in: folder)
        #expect(read.code == 1)
        #expect(read.errors.contains("interrupted by a crash"))
        let write = try Tool.run(
            "sql",
            "--json",
            "a.db",
            "INSERT INTO t VALUES (2); SELECT COUNT(*) AS n FROM t",
            in: folder
        )
        #expect(write.output == "{\"n\":2}\n", "\(write.errors)")
    }

    /// When the tool looks at a database, it waits for the locks of other programs, and the error shows no wait that was not made (rule W9).
    @Test(.enabled(if: Shell.isInstalled, "needs the sqlite3 shell"))
    func `Reading waits for a lock, as long as it may`() throws {
        let folder = try Folder()
        // As while another process creates it.
        try Data().write(to: folder.url.appendingPathComponent("a.db"))
        let shell = try Shell(folder, "a.db")
        try shell.execute("BEGIN EXCLUSIVE;")
        let began = ContinuousClock.now
        let impatient = try Tool.run("sql", "--timeout", "0.3", "a.db", "SELECT 1", in: folder)
        let passed = (ContinuousClock.now - began) / .seconds(1)
        #expect(impatient.code == 1)
        let words = impatient.errors.split(whereSeparator: { " ;\n".contains($0) }).map(String.init)
        let waited = try #require(
            words.firstIndex(of: "waited").flatMap { Double(words[$0 + 1]) },
            "\(impatient.errors)"
        )
        #expect(waited >= 0.3 && waited <= passed + 0.05, "\(impatient.errors)")
        #expect(impatient.errors.contains(folder.path("a.db")) && impatient.errors.contains("(pid \(shell.pid))"))

        let (output, errors) = (Pipe(), Pipe())
        let arguments = ["sql", "--timeout", "60", "--json", "a.db", "SELECT COUNT(*) AS n FROM sqlite_master"]
        let patient = try Tool.start(arguments, in: folder.url, output: output, errors: errors)
        #if os(Linux)
            let files = "/proc/\(patient.processIdentifier)/fd"
            func hasOpened() -> Bool {
                let names = (try? FileManager.default.contentsOfDirectory(atPath: files)) ?? []
                return names.contains {
                    (try? FileManager.default.destinationOfSymbolicLink(atPath: "\(files)/\($0)"))?.hasSuffix("/a.db")
                        == true
                }
            }
            try RoundtableTestKit.eventually("it has opened the database", within: .seconds(30)) {
                hasOpened() || !patient.isRunning
            }
        #endif
        try shell.execute("COMMIT;")
        let text = output.fileHandleForReading.readDataToEndOfFile()
        let errorText = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        patient.waitUntilExit()
        #expect(patient.terminationStatus == 0, "\(errorText)")
        #expect(String(decoding: text, as: UTF8.self) == "{\"n\":0}\n")
        shell.kill()
    }

    @Test func `Tables and schema are listed without a terminal`() throws {
        let folder = try Folder()
        try Tool.run("sql", "a.db", "CREATE TABLE b(x); CREATE TABLE a(y)", in: folder)
        #expect(try Tool.run("sql", "a.db", ".tables", in: folder).output == "a\nb\n")
        #expect(try Tool.run("sql", "a.db", ".schema a", in: folder).output == "CREATE TABLE a(y);\n")
        #expect(try Tool.run("sql", "a.db", ".schema", "b", in: folder).output == "CREATE TABLE b(x);\n")
        let unknown = try Tool.run("sql", "a.db", ".dump", in: folder)
        #expect(unknown.code != 0 && unknown.errors.contains("there are .tables and .schema"), "\(unknown.errors)")
        let missing = try Tool.run("sql", "b.db", ".tables", in: folder)
        #expect(missing.code == 1 && missing.errors.contains("there is no such file"), "\(missing.errors)")
    }

    /// The result is larger than what is kept in memory, so a part of it comes from the temporary file.
    @Test(.long(), arguments: [[], ["--csv"], ["--json"], ["--line"]]) func `A large result is complete`(
        format: [String]
    ) throws {
        let folder = try Folder()
        try Tool.run("sql", "a.db", "CREATE TABLE t(x)", in: folder)
        let count = 60_000
        let sql = """
            WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(count))
            SELECT i, printf('%0100d', i) AS text FROM n
            """
        let result = try Tool.run(["sql", "a.db", sql] + format, in: folder)
        #expect(result.code == 0, "\(result.errors)")
        let numbers = result.output.split(separator: "\n").compactMap { line in
            line.firstRange(of: /0[0-9]{99}/).flatMap { Int(line[$0]) }
        }
        #expect(numbers == Array(1...count))
    }

    @Test func `A full disk is reported with the path and what to do`() throws {
        let folder = try Folder()
        try Tool.run("sql", "a.db", "CREATE TABLE t(x)", in: folder)
        let sql = "PRAGMA max_page_count = 1; INSERT INTO t VALUES (zeroblob(100000))"
        let result = try Tool.run("sql", "a.db", sql, in: folder)
        #expect(result.code == 1)
        let text =
            "roundtable: \(folder.path("a.db")): database or disk is full: free space there, and try again, in: INSERT"
        #expect(result.errors.hasPrefix(text), "\(result.errors)")
    }
}
