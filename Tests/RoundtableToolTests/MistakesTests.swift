import Foundation
import Testing

/// Whatever is wrong: one line that says what and where, a non-zero exit, and no file more or less than before.
@Suite struct MistakesTests {
    private func expectOneLine(
        _ arguments: [String],
        in folder: Folder,
        contains text: String,
        code: Int32 = 1,
        prefix: [String] = [],
        _ location: SourceLocation = #_sourceLocation
    ) throws {
        let before = try folder.contents
        let program = prefix.first.map { URL(fileURLWithPath: $0) }
        let all = try prefix.isEmpty ? arguments : Array(prefix.dropFirst()) + [Tool.url.path] + arguments
        let result = try Tool.run(all, in: folder, program: program)
        #expect(result.code == code, "\(arguments)", sourceLocation: location)
        #expect(result.output == "", "\(arguments)", sourceLocation: location)
        #expect(result.errors.hasPrefix("roundtable: "), "\(result.errors)", sourceLocation: location)
        #expect(result.errors.split(separator: "\n").count == 1, "\(result.errors)", sourceLocation: location)
        #expect(result.errors.contains(text), "\(result.errors)", sourceLocation: location)
        #expect(try folder.contents == before, "\(arguments)", sourceLocation: location)
    }

    @Test(arguments: [
        (["sql"], "Try 'roundtable sql --help'"), (["sql", "a.db"], "no SQL"),
        (["sql", "a.db", " -- nothing"], "no SQL"),
        (["sql", "a.db", "SELECT 1", "--timeout", "-1"], "--timeout"),
        (["sql", "a.db", "SELECT 1", "--frob"], "--frob"),
        (["status"], "Try 'roundtable status --help'"), (["status", "a.db", "--watch", "0"], "--watch"),
        (["demo", "--processes", "0"], "--processes"), (["demo", "--processes", "1000"], "--processes"),
        (["demo", "--seconds", "soon"], "--seconds"), (["frob"], "frob"),
        (["a.db"], "There is no verb 'a.db'. Did you mean 'roundtable status a.db'? Try 'roundtable --help'."),
        (["status", "a.db", "--colour"], "Unknown option '--colour'. Try 'roundtable status --help'."),
        (["status", "a.db", "--foldr"], "Did you mean '--folder'? Try 'roundtable status --help'."),
        (["outbox", "a.db", "lost"], "'lost' is no action: give list, show, retry or drop."),
        (["record", "a.db", "--every", "-1"], "--every takes a number of seconds, from 0.1"),
        (["top", "a.db", "--every", "-1"], "--every takes a number of seconds, from 0.1"),
        (["status", "a.db", "--watch", "-1"], "--watch takes"),
        (["history", "a.db", "--last", "-1"], "--last takes a number of changes, at least 1"),
        (["record", "a.db", "-o", ""], "--output takes the path of a file, which is not empty"),
    ])
    func `Wrong arguments`(arguments: [String], text: String) throws {
        try expectOneLine(arguments, in: Folder(), contains: text, code: 64)
    }

    @Test func `A missing file`() throws {
        let folder = try Folder()
        let path = folder.path("a.db")
        try expectOneLine(
            ["status", "a.db"],
            in: folder,
            contains: "\(path): there is no such file. Check the path."
        )
        for sql in ["SELECT 1", "SELECT * FROM t"] {
            try expectOneLine(["sql", "a.db", sql], in: folder, contains: "\(path): there is no such file")
        }
        try expectOneLine(["sql", "--read-only", "a.db", "CREATE TABLE t(x)"], in: folder, contains: "no such file")
        try expectOneLine(["sql", "a.db", "CREATE TABEL t(x)"], in: folder, contains: "syntax error")
        try expectOneLine(["sql", "no/a.db", "SELECT 1"], in: folder, contains: "no such file, and no folder '")
        try expectOneLine(["sql", "no/a.db", "CREATE TABLE t(x)"], in: folder, contains: "no does not exist")
        try expectOneLine(["demo", "--at", "no/a.db"], in: folder, contains: "no does not exist")
    }

    @Test func `What the system refuses is said with what to do`() throws {
        let folder = try Folder()
        let long = String(repeating: "x", count: 300)
        for arguments in [["status", long], ["outbox", long]] {
            let result = try Tool.run(arguments, in: folder)
            #expect(result.code > 0 && result.output.isEmpty, "\(arguments)")
            #expect(
                result.errors.contains("File name too long") && result.errors.contains("Check the path"),
                "\(result.errors)"
            )
            #expect(result.errors.components(separatedBy: long).count == 2, "reported twice: \(result.errors)")
        }
    }

    @Test(.enabled(if: FileManager.default.fileExists(atPath: "/dev/full"), "needs /dev/full"))
    func `Output that cannot be written is an error with what to do`() throws {
        let folder = try Folder()
        let shell = URL(fileURLWithPath: "/bin/sh")
        try Data().write(to: folder.url.appendingPathComponent("a.db"))
        let full = try Tool.run(
            ["-c", "'\(try Tool.url.path)' sql a.db 'SELECT 1' >/dev/full"],
            in: folder,
            program: shell
        )
        #expect(
            full.code == 1 && full.errors.contains("No space left on device (errno 28). Free space"),
            "\(full.errors)"
        )
    }

    /// A user who runs the statements again has the rows twice.
    @Test(.enabled(if: FileManager.default.fileExists(atPath: "/dev/full"), "needs /dev/full"))
    func `Output that cannot be written after a commit is no reason to write again`() throws {
        let folder = try Folder()
        let shell = URL(fileURLWithPath: "/bin/sh")
        for (option, sql) in [
            ("", "CREATE TABLE t(x); INSERT INTO t VALUES (1)"), ("--json", "INSERT INTO t VALUES (2) RETURNING x"),
            ("", "BEGIN; INSERT INTO t VALUES (3); COMMIT"),
        ] {
            let command = "'\(try Tool.url.path)' sql \(option) a.db '\(sql)' >/dev/full"
            let full = try Tool.run(["-c", command], in: folder, program: shell)
            #expect(full.code == 1 && full.errors.split(separator: "\n").count == 1)
            #expect(
                full.errors.contains("No space left on device (errno 28). The statements have run to the end")
                    && full.errors.contains("do not run them again") && !full.errors.contains("try again"),
                "\(full.errors)"
            )
        }
        let rows = try Tool.run("sql", "--json", "a.db", "SELECT group_concat(x) AS rows FROM t", in: folder)
        #expect(rows.output == "{\"rows\":\"1,2,3\"}\n")
    }

    @Test func `Not a database`() throws {
        let folder = try Folder()
        try Data("This is a letter, and not a database at all.\n".utf8).write(
            to: folder.url.appendingPathComponent("a.txt")
        )
        for arguments in [["status", "a.txt"], ["sql", "a.txt", "SELECT 1"], ["sql", "a.txt", "CREATE TABLE t(x)"]] {
            try expectOneLine(arguments, in: folder, contains: "\(folder.path("a.txt")): is not a SQLite database")
        }
        try expectOneLine(["demo", "--at", "a.txt"], in: folder, contains: "is not a SQLite database")
    }

    @Test func `A folder`() throws {
        let folder = try Folder()
        for arguments in [
            ["status", "."], ["sql", ".", "SELECT 1"], ["sql", ".", "CREATE TABLE t(x)"], ["demo", "--at", "."],
        ] {
            try expectOneLine(arguments, in: folder, contains: "is a folder")
        }
        // A command that only reads does not advise to remove it.
        try expectOneLine(["snapshot", "."], in: folder, contains: "it is a folder. Choose another path.\n")
    }

    @Test func `An empty file is an empty database`() throws {
        let folder = try Folder()
        try Data().write(to: folder.url.appendingPathComponent("a.db"))
        #expect(try Tool.run("sql", "--json", "a.db", "SELECT 1 AS one", in: folder).output == "{\"one\":1}\n")
        #expect(try Tool.run("status", "a.db", in: folder).output.contains("empty file"))
        try expectOneLine(["sql", "a.db", "SELECT * FROM t"], in: folder, contains: "no such table: t")
        #expect(try folder.contents == ["a.db": Data()])
    }

    private static let setpriv = "/usr/bin/setpriv"

    @Test(
        .enabled(if: getuid() == 0 && FileManager.default.isExecutableFile(atPath: setpriv), "needs root and setpriv")
    )
    func `No permission`() throws {
        let folder = try Folder()
        try Tool.run("sql", "a.db", "CREATE TABLE t(x)", in: folder)
        try Tool.run("sql", "a.db", "PRAGMA journal_mode = DELETE", in: folder)
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: folder.url.path)
        let nobody = [Self.setpriv, "--reuid=65534", "--regid=65534", "--clear-groups"]
        let path = folder.path("a.db")
        for (mode, sql) in [
            (0o600, "SELECT 1"), (0o600, "DELETE FROM t"), (0o644, "DELETE FROM t"), (0o666, "DELETE FROM t"),
        ] {
            try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
            try expectOneLine(["sql", "a.db", sql], in: folder, contains: "\(path): permission denied", prefix: nobody)
        }
        try expectOneLine(
            ["sql", "b.db", "CREATE TABLE t(x)"],
            in: folder,
            contains: "permission denied",
            prefix: nobody
        )
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
        try expectOneLine(["status", "a.db"], in: folder, contains: "permission denied", prefix: nobody)
    }

    @Test func `Help and version`() throws {
        let folder = try Folder()
        #expect(try Tool.run("--version", in: folder).output.contains("."))
        for verb in ["sql", "status", "demo"] {
            let help = try Tool.run(verb, "--help", in: folder)
            #expect(help.code == 0)
            #expect(help.output.contains("USAGE: roundtable \(verb)"))
        }
        #expect(try !Tool.run("--help", in: folder).output.contains("demo-peer"))
        #expect(try Tool.run("outbox", "items", "--help", in: folder).output.contains("(default: 5)"))
    }
}
