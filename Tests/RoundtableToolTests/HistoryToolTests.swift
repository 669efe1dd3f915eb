import Foundation
import Testing

@Suite(.enabled(if: Shell.isInstalled, "needs the sqlite3 shell")) struct HistoryToolTests {
    private func objects(_ output: String) throws -> [[String: Any]] {
        try output.split(separator: "\n").map { line in
            try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
        }
    }

    @Test func `Changes of all writers are shown, and pages continue where the last one ended`() throws {
        let folder = try Folder()
        try Tool.run(
            "sql",
            "a.db",
            "CREATE TABLE p (id INTEGER PRIMARY KEY, name); CREATE TABLE q (k BLOB PRIMARY KEY)",
            in: folder
        )
        #expect(try Tool.run("history", "a.db", "--enable", "p", "--columns", in: folder).code == 0)
        #expect(try Tool.run("history", "a.db", "--enable", "q", in: folder).code == 0)
        try Tool.run(
            "sql",
            "a.db",
            "--as",
            "me",
            "INSERT INTO p (name) VALUES ('x'); UPDATE p SET name = 'y'",
            in: folder
        )
        let shell = try Shell(folder, "a.db")
        try shell.execute("INSERT INTO q VALUES (x'00ff');")
        shell.kill()

        let first = try Tool.run("history", "a.db", "--table", "p", "--limit", "1", "--json", in: folder)
        #expect(first.code == 0, "\(first.errors)")
        // A transaction is longer than the limit: it is cut.
        var lines = try objects(first.output)
        #expect(lines.count == 2 && lines[1]["has_more"] as? Bool == true)
        #expect(lines[0]["author"] as? String == "me" && lines[0]["operation"] as? String == "insert")
        #expect(lines[0]["key"] as? [String: Int] == ["id": 1])
        let token = try #require(lines[1]["token"] as? String)
        lines = try objects(Tool.run("history", "a.db", "--since", token, "--json", in: folder).output)
        #expect(lines.count == 3 && lines[0]["columns"] as? [String] == ["name"])
        #expect(lines[1]["author"] == nil && lines[1]["table"] as? String == "q")
        #expect(lines[1]["key"] as? [String: [String: String]] == ["k": ["base64": "AP8="]])

        let text = try Tool.run("history", "a.db", in: folder)
        #expect(text.output.contains("(unknown)") && text.output.contains("Token: "))
        #expect(try Tool.run("history", "a.db", "--consumers", in: folder).output.contains("(no consumers)"))
    }

    @Test func `Old values are kept and shown`() throws {
        let folder = try Folder()
        try Tool.run("sql", "a.db", "CREATE TABLE p (id INTEGER PRIMARY KEY, serverID, body)", in: folder)
        let kept = ["--keep", "serverID", "--keep", "body", "--keep-updates"]
        #expect(try Tool.run(["history", "a.db", "--enable", "p"] + kept, in: folder).code == 0)
        try Tool.run(
            "sql",
            "a.db",
            "INSERT INTO p VALUES (1, 's1', x'00ff'); UPDATE p SET body = NULL; DELETE FROM p",
            in: folder
        )
        let lines = try objects(Tool.run("history", "a.db", "--json", in: folder).output)
        #expect(lines.count == 4 && lines[0]["old_values"] == nil)
        let updated = try #require(lines[1]["old_values"] as? [String: Any])
        #expect(updated["serverID"] as? String == "s1" && updated["body"] as? [String: String] == ["base64": "AP8="])
        let deleted = try #require(lines[2]["old_values"] as? [String: Any])
        #expect(deleted["serverID"] as? String == "s1" && deleted["body"] is NSNull)
        let text = try Tool.run("history", "a.db", in: folder).output
        #expect(text.contains("old values") && text.contains("serverID: s1"))
        let unknown = try Tool.run("history", "a.db", "--enable", "p", "--keep", "nothing", in: folder)
        #expect(unknown.code == 1 && unknown.errors.contains("no column 'nothing'"))
        #expect(try Tool.run("history", "a.db", "--keep", "body", in: folder).code == 64)
    }

    @Test(arguments: [true, false]) func `Following ends when the database is deleted or replaced`(isReplaced: Bool)
        throws
    {
        let folder = try Folder()
        for name in ["a.db", "b.db"] {
            try Tool.run("sql", name, "CREATE TABLE p (id INTEGER PRIMARY KEY)", in: folder)
            #expect(try Tool.run("history", name, "--enable", "p", in: folder).code == 0)
        }
        try Tool.run("sql", "a.db", "INSERT INTO p VALUES (7)", in: folder)
        let (output, errors) = (Pipe(), Pipe())
        let arguments = ["history", "a.db", "--follow", "--json"]
        let process = try Tool.start(arguments, in: folder.url, output: output, errors: errors)
        defer { if process.isRunning { process.terminate() } }
        // The first change is printed when the database is open.
        #expect(String(decoding: output.fileHandleForReading.availableData, as: UTF8.self).contains(#""id":7"#))
        for name in try folder.contents.keys where name.hasPrefix("a.db") {
            try FileManager.default.removeItem(atPath: folder.path(name))
        }
        if isReplaced { #expect(rename(folder.path("b.db"), folder.path("a.db")) == 0) }
        // What waits for the end is the end of its output. The last line is the error.
        let rest = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        #expect(
            rest.hasPrefix(#"{"error":{"exit_code":1,"message":"#) && rest.filter(\.isNewline).count == 1,
            "\(rest)"
        )
        process.waitUntilExit()
        #expect(process.terminationStatus == 1)
        let text = String(decoding: try errors.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        #expect(
            text
                == "roundtable: \(folder.path("a.db")): the database was deleted, moved away or replaced, and nothing more is committed to what was watched. Follow again.\n"
        )
    }

    @Test func `A command that is suggested is quoted for the shell, and helps`() throws {
        let folder = try Folder()
        let sql = "CREATE TABLE \"it's p\" (id INTEGER PRIMARY KEY); CREATE TABLE q (id INTEGER PRIMARY KEY)"
        try Tool.run("sql", "it's here.db", sql, in: folder)
        func suggestion(_ arguments: String...) throws -> String {
            try Tool.run(["history", "it's here.db"] + arguments, in: folder).errors
        }
        #expect(try suggestion().contains(#"history 'it'\''s here.db' --enable TABLE"#))
        // Neither with a history nor without one.
        for _ in 1...2 {
            let missing = try suggestion("--table", "nothere")
            #expect(
                missing == "roundtable: \(folder.path("it's here.db")): there is no table 'nothere'. Check the name.\n"
            )
            let errors = try suggestion("--table", "it's p")
            let command = try #require(errors.components(separatedBy: " Here: ").last?.dropLast())
            let shell = URL(fileURLWithPath: "/bin/sh")
            try Tool.run("history", "it's here.db", "--enable", "q", in: folder)
            #expect(command.hasSuffix(#"history 'it'\''s here.db' --enable 'it'\''s p'"#), "\(errors)")
            #expect(try Tool.run(["-c", "\(command)"], in: folder, program: shell).code == 0, "\(command)")
            try Tool.run("history", "it's here.db", "--disable", "it's p", in: folder)
        }
    }

    @Test func `What goes wrong is said in one line`() throws {
        let folder = try Folder()
        func expect(_ arguments: [String], code: Int32, _ text: String) throws {
            let result = try Tool.run(["history", "a.db"] + arguments, in: folder)
            #expect(result.code == code && result.output.isEmpty, "\(arguments): \(result.errors)")
            #expect(result.errors.contains(text) && result.errors.split(separator: "\n").count == 1, "\(result.errors)")
        }
        try expect([], code: 1, "there is no such file")
        try Tool.run("sql", "a.db", "CREATE TABLE p (id INTEGER PRIMARY KEY); CREATE TABLE plain (a)", in: folder)
        try expect([], code: 1, "has no history")
        try expect(["--enable", "plain"], code: 1, "no primary key")
        #expect(try Tool.run("history", "a.db", "--enable", "p", in: folder).code == 0)
        try expect(["--since", "nonsense"], code: 64, "is no token")
        try expect(["--since", "0000000000000000-1"], code: 2, "another history")
        try expect(["--consumer", "nobody"], code: 1, "no consumer 'nobody'")
        try expect(["--drop-consumer", "nobody"], code: 1, "no consumer 'nobody'")
        try expect(["--table", "plain"], code: 1, "not recorded")
        try expect(["--consumers", "--enable", "p"], code: 64, "one at a time")
    }
}
