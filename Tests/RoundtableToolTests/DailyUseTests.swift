import Foundation
import Testing

@testable import RoundtableReplication
@testable import RoundtableTool
@testable import RoundtableToolSupport

/// What makes the tool pleasant to use every day: formats, widths, colours, hints.
@Suite struct DailyUseTests {
    private static let shell = URL(fileURLWithPath: "/bin/sh")

    private func run(_ script: String, in folder: Folder) throws -> Tool.Result {
        let full = script.replacingOccurrences(of: "roundtable ", with: "'\(try Tool.url.path)' ")
        return try Tool.run(["-c", full], in: folder, program: Self.shell)
    }

    private func database() throws -> Folder {
        let folder = try Folder()
        let sql = """
            CREATE TABLE player (id INTEGER PRIMARY KEY, name TEXT, note);
            INSERT INTO player (name, note) VALUES ('Arthur', 'a "b", c'), ('', NULL), ('line' || char(10) || 'end', x'00ff');
            """
        try Data(sql.utf8).write(to: folder.url.appendingPathComponent("script.sql"))
        let result = try run("roundtable sql a.db < script.sql", in: folder)
        try #require(result.code == 0 && result.output == "3 rows changed\n", "\(result.errors)")
        return folder
    }

    // MARK: sql

    @Test func `A script comes from standard input, and an empty one is a mistake`() throws {
        let folder = try database()
        let result = try run("printf 'SELECT 1 AS a;\\nSELECT 2 AS b' | roundtable sql a.db --json", in: folder)
        #expect(result.output == "{\"a\":1}\n{\"b\":2}\n")
        for script in ["", "-- nothing", "\n\n"] {
            let empty = try run("printf '%s' '\(script)' | roundtable sql a.db", in: folder)
            #expect(empty.code == 64 && empty.errors.contains("There is no SQL statement."), "\(empty.errors)")
        }
    }

    @Test func `CSV keeps NULL and empty text apart, and quotes what it must`() throws {
        let folder = try database()
        let result = try run(
            "roundtable sql a.db --csv 'SELECT name, note, id FROM player; SELECT 1 AS \"a,b\"'",
            in: folder
        )
        #expect(
            result.output == """
                name,note,id
                Arthur,"a ""b"", c",1
                "",,2
                "line
                end",x'00ff',3

                "a,b"
                1

                """
        )
    }

    @Test func `One column a line`() throws {
        let folder = try database()
        let result = try run("roundtable sql a.db --line 'SELECT id, name FROM player WHERE id < 3'", in: folder)
        #expect(result.output == "  id = 1\nname = Arthur\n\n  id = 2\nname = ''\n")
        #expect(try run("roundtable sql a.db --line 'SELECT 1 WHERE 0'", in: folder).output == "(no rows)\n")
        #expect(try run("roundtable sql a.db --line --csv 'SELECT 1'", in: folder).code == 64)
    }

    @Test(.enabled(if: PseudoTerminal.isPossible, "needs setsid(1)"))
    func `A table that is wider than the terminal has its widest cells cut, or one column a line`() throws {
        let folder = try database()
        let words = String(repeating: "word ", count: 30)
        func lines(_ arguments: String..., columns: UInt16) throws -> [String] {
            let terminal = try PseudoTerminal([Tool.url.path, "sql", "a.db"] + arguments, in: folder, columns: columns)
            #expect(try terminal.waitForEnd() == 0)
            return terminal.output.split(separator: "\r\n").map { String($0).replacing(/\u{1B}\[[0-9]*m/, with: "") }
        }
        let sql = "SELECT 1 AS id, '\(words)' AS text, NULL AS n UNION ALL SELECT 2, 'a', ''"
        let cut = try lines(sql, columns: 40)
        #expect(cut[0] == "id  text\(String(repeating: " ", count: 28))n", "\(cut)")
        #expect(cut[2] == " 1  word word word word word word…  NULL", "\(cut)")
        #expect(cut[3] == " 2  a\(String(repeating: " ", count: 31))''", "\(cut)")
        #expect(cut.allSatisfy { $0.count <= 40 } && cut.last == "(… is cut: --line shows all)", "\(cut)")
        let line = try lines(sql, "--line", columns: 40)
        #expect(line.joined().ranges(of: "word").count == 30 && line.last == "   n = ''", "\(line)")
        // Columns that cannot be cut so far.
        let many = try lines("SELECT 1 AS id" + (1...5).map { ", '\(words)' AS t\($0)" }.joined(), columns: 40)
        #expect(many.first == "id = 1" && many.dropFirst().first?.hasPrefix("t1 = word word") == true, "\(many)")
        #expect(many.allSatisfy { $0.count <= 40 && $0.hasSuffix("1") || $0.hasSuffix("word") }, "\(many)")
        let wide = try lines(sql, columns: 200)
        #expect(wide.count == 4 && wide[2].ranges(of: "word").count == 30, "\(wide)")
        // An error, too.
        let wrong = try PseudoTerminal(
            [Tool.url.path, "sql", "a.db", "SELECT nope FROM player"],
            in: folder,
            columns: 40
        )
        #expect(try wrong.waitForEnd() == 1)
        let errors = wrong.output.split(separator: "\r\n")
        #expect(errors.first == "roundtable:" || errors.first?.hasPrefix("roundtable: ") == true, "\(errors)")
        #expect(errors.last?.hasSuffix("player") == true && errors.suffix(2).allSatisfy { $0.count <= 40 }, "\(errors)")
    }

    @Test(.enabled(if: PseudoTerminal.isPossible, "needs setsid(1)"))
    func `Statements are typed, with history and completion, and mistakes do not end it`() throws {
        let folder = try database()
        let environment = ["ROUNDTABLE_HISTORY": folder.path("statements")]
        let terminal = try PseudoTerminal([Tool.url.path, "sql", "a.db"], in: folder, environment: environment)
        let before = terminal.initialFlags
        func type(_ keys: String, expecting shown: String) throws {
            let start = terminal.output.count
            terminal.press(keys)
            try terminal.wait(for: shown, after: start)
        }
        try terminal.wait(for: "sql> ")
        try type("SELECT name FROM pla\t WHERE id = 1;\r", expecting: "Arthur")
        try terminal.wait("the prompt") { $0.output.hasSuffix("sql> \u{1B}[K\r\u{1B}[5C") }
        #expect(terminal.output.contains("FROM player"), "completed: \(terminal.output)")
        try type("SELECT not\t AS x FROM player WHERE id = 2;\r", expecting: "NULL")
        #expect(terminal.output.contains("SELECT note AS x"), "completed: \(terminal.output)")
        // NULL is no text.
        #expect(terminal.output.contains("\u{1B}[2mNULL\u{1B}[0m"), "\(terminal.output)")
        try type("SELECT nope;\r", expecting: "nope,")
        try type("SELECT 40 +\r", expecting: "...> ")
        try type("2;\r", expecting: "42")
        // The history has the lines.
        try type("\u{1B}[A\u{1B}[A\u{1B}[A\u{1B}[A", expecting: "WHERE id = 2;")
        // Ctrl-C discards the line, and the next one is as if it had never been.
        try type("\u{3}", expecting: "^C")
        try type(".tables\r", expecting: "player")
        try type(".schema nobody\r", expecting: "there is no table 'nobody'")
        try type(".schema \"Player\"\r", expecting: "CREATE TABLE player")
        try type(".mode csv\rSELECT 5 AS five, 6 AS six;\r", expecting: "five,six\r\n5,6")
        try type(".frob\r", expecting: "there is no command")
        terminal.press("exit\r")
        #expect(try terminal.waitForEnd() == 0)
        #expect(PseudoTerminal.flags(terminal.settings) == before)
        let file = folder.path("statements")
        #expect(try String(contentsOfFile: file, encoding: .utf8).contains("SELECT 40 +\n2;\n"))
        let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int
        #expect(mode == 0o600)
    }

    @Test func `A script that is no text stores nothing`() throws {
        let folder = try database()
        for (bytes, what) in [("caf\\351", "not UTF-8"), ("a\\0b", "a zero byte")] {
            let script = "printf \"INSERT INTO player (name) VALUES ('\(bytes)')\" | roundtable sql a.db"
            let result = try run(script, in: folder)
            #expect(result.code == 1 && result.errors.contains(what) && result.output.isEmpty, "\(result)")
        }
        let count = try run("roundtable sql a.db --csv 'SELECT count(*) FROM player'", in: folder)
        #expect(count.output == "count(*)\n3\n")
    }

    @Test(.enabled(if: PseudoTerminal.isPossible, "needs setsid(1)"))
    func `No format lets a value reach the terminal as a command, and a pipe gets the text as it is`() throws {
        let folder = try database()
        let sql = "SELECT char(27) || '[31m' || char(0x9b) || '2J' || char(0x202e) || char(10) AS a"
        for format in ["--csv", "--json", "--line"] {
            let terminal = try PseudoTerminal([Tool.url.path, "sql", "a.db", format, sql], in: folder)
            #expect(try terminal.waitForEnd() == 0)
            #expect(terminal.output.contains("\\u001b[31m\\u009b2J\\u202e\\n"), "\(format): \(terminal.output)")
            #expect(
                !terminal.output.unicodeScalars.contains { ["\u{1B}", "\u{9B}", "\u{202E}"].contains($0) },
                "\(format)"
            )
        }
        #expect(
            try run("roundtable sql a.db --csv \"\(sql)\"", in: folder).output
                == "a\n\"\u{1B}[31m\u{9B}2J\u{202E}\n\"\n"
        )
        let accent = try run("roundtable sql a.db --csv \"SELECT char(34, 769) || ',' AS a\"", in: folder).output
        #expect(accent == "a\n\"\"\"\u{301},\"\n", "a quote with a combining accent is doubled as well")
        // JSON is the same text for every reader, whatever it escapes.
        let json = try run("roundtable sql a.db --json \"\(sql)\"", in: folder).output
        let value = try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [String: String]
        #expect(value?["a"] == "\u{1B}[31m\u{9B}2J\u{202E}\n" && json.contains("\\u009b"))
        #expect("{\"é\": \"\u{9B}2J\u{202E}\"\n}".visibleJSON == "{\"é\": \"\\u009b2J\\u202e\"\n}")
    }

    @Test func `A value does not change the direction of the text beside it`() throws {
        let folder = try database()
        let result = try run("roundtable sql a.db \"SELECT char(0x202e) || 'abc' || char(27) AS a\"", in: folder)
        #expect(result.output.split(separator: "\n").last == "\\u202eabc\\u001b", "\(result)")
    }

    @Test(
        .enabled(
            if: PseudoTerminal.isPossible && FileManager.default.isExecutableFile(atPath: "/bin/bash"),
            "needs setsid(1) and bash"
        )
    )
    func `Ctrl-Z gives the terminal back after a statement, and fg takes it again`() throws {
        let folder = try database()
        let script = """
            set -m; '\(try Tool.url.path)' sql a.db; echo stopped $?; stty -a >modes; mv modes stopped; read line; fg; echo ended $?
            """
        let terminal = try PseudoTerminal(
            ["/bin/bash", "-c", script],
            in: folder,
            environment: ["ROUNDTABLE_HISTORY": ""]
        )
        let before = terminal.initialFlags
        try terminal.wait(for: "sql> ")
        var start = terminal.output.count
        terminal.press("SELECT 40 + 1;\r")
        try terminal.wait(for: "41", after: start)
        try terminal.wait("the prompt") { $0.output.hasSuffix("sql> \u{1B}[K\r\u{1B}[5C") && $0.isRaw }
        start = terminal.output.count
        terminal.press("\u{1A}")
        let shown = try terminal.wait(for: "stopped 148", after: start)
        #expect(!shown.contains("sql> "), "the prompt came before the stop: \(shown)")
        try terminal.wait("the settings") { _ in FileManager.default.fileExists(atPath: folder.path("stopped")) }
        #expect(PseudoTerminal.flags(terminal.settings) == before)
        start = terminal.output.count
        terminal.press("\n")
        try terminal.wait(for: "sql> ", after: start)
        #expect(terminal.isRaw)
        terminal.press("\u{4}")
        try terminal.wait(for: "ended 0")
        #expect(try terminal.waitForEnd() == 0)
    }

    @Test(.enabled(if: PseudoTerminal.isPossible, "needs setsid(1)"))
    func `Ctrl-C while a statement runs keeps the history`() throws {
        let folder = try database()
        let environment = ["ROUNDTABLE_HISTORY": folder.path("statements")]
        let terminal = try PseudoTerminal([Tool.url.path, "sql", "a.db"], in: folder, environment: environment)
        try terminal.wait(for: "sql> ")
        let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n;"
        terminal.press("\(endless)\r")
        try terminal.wait(for: "running … 1 s")
        terminal.press("\u{3}")
        #expect(try terminal.waitForEnd() == 130)
        #expect(try String(contentsOfFile: folder.path("statements"), encoding: .utf8) == endless + "\n")
    }

    // MARK: The editor

    private func edited(_ keys: [TerminalKey], _ editor: inout LineEditor) -> [LineEditor.Outcome] {
        keys.map { editor.handle($0) }
    }

    @Test func `Keys edit a line`() {
        var editor = LineEditor(history: ["first", "second"])
        _ = edited(TerminalKey.keys(of: Array("ac".utf8)) + [.left, .character("b"), .home, .delete, .end], &editor)
        #expect(String(editor.text) == "bc" && editor.cursor == 2)
        _ = edited([.character(" "), .character("x"), .control("w"), .control("a"), .right, .control("k")], &editor)
        #expect(String(editor.text) == "b")
        _ = edited([.up, .up, .up], &editor)
        #expect(String(editor.text) == "first")
        _ = edited([.down, .down, .down], &editor)
        #expect(String(editor.text) == "b", "the line that was typed comes back")
        #expect(edited([.enter], &editor) == [.line("b")] && editor.history == ["first", "second", "b"])
        #expect(edited([.control("d")], &editor) == [.end])
        #expect(edited([.character("x"), .control("d"), .control("c")], &editor).last == .cancelled)
        #expect(editor.text.isEmpty && editor.history.last == "b")
        #expect(edited([.character(" "), .enter], &editor).last == .line(" ") && editor.history.last == "b")
        #expect(edited([.character("x"), .character("y"), .left, .control("u")], &editor).last == .editing)
        #expect(String(editor.text) == "y" && editor.cursor == 0)
    }

    @Test func `A word is completed as far as it is certain`() {
        let names = ["player", "playlist", "team"]
        var editor = LineEditor { word in names.filter { $0.hasPrefix(word.lowercased()) } }
        func type(_ text: String) -> LineEditor.Outcome {
            _ = edited([.control("u")] + TerminalKey.keys(of: Array(text.utf8)), &editor)
            return editor.handle(.tab)
        }
        #expect(type("FROM t") == .editing && String(editor.text) == "FROM team")
        #expect(type("p") == .editing && String(editor.text) == "play")
        #expect(editor.handle(.tab) == .choices(["player", "playlist"]))
        #expect(type("TE") == .editing && String(editor.text) == "team")
        #expect(type("x") == .editing && String(editor.text) == "x")
        #expect(type("a ") == .editing && String(editor.text) == "a ")
    }

    @Test func `A name that needs quotes is completed with them`() {
        let names = ["my table", "my \"tent", "order", "7up", "player", "größe"]
        var editor = LineEditor { SQLCompletion.words(for: $0, names: names, keywords: ["ORDER", "SELECT"]) }
        func type(_ text: String) -> String {
            _ = edited([.control("u"), .control("k")] + TerminalKey.keys(of: Array(text.utf8)), &editor)
            _ = editor.handle(.tab)
            return String(editor.text)
        }
        #expect(type("FROM my") == "FROM \"my ")
        #expect(type("FROM \"my t") == "FROM \"my table\"")
        #expect(type("FROM 'x', \"MY T") == "FROM 'x', \"my table\"")
        #expect(type("FROM `my t") == "FROM `my table`")
        #expect(type("FROM \"my \"") == "FROM \"my \"")
        #expect(type("FROM \"my \"\"") == "FROM \"my \"\"")
        #expect(type("FROM \"pl") == "FROM \"player\"")
        #expect(type("FROM 7") == "FROM \"7up\"" && type("gr") == "größe" && type("sel") == "SELECT")
        // A name that is a keyword, too.
        #expect(type("or") == "or" && editor.handle(.tab) == .choices(["\"order\"", "ORDER"]))
        #expect(type("\"or") == "\"order\"")
        // The quote is closed already.
        _ = edited([.control("u")] + TerminalKey.keys(of: Array("\"my t\"".utf8)) + [.left, .tab], &editor)
        #expect(String(editor.text) == "\"my table\"" && editor.cursor == 10)
    }

    @Test(.enabled(if: PseudoTerminal.isPossible, "needs setsid"))
    func `The history of typed lines is in the folder that HOME names`() throws {
        let folder = try database()
        let terminal = try PseudoTerminal(
            [try Tool.url.path, "sql", "a.db"],
            in: folder,
            environment: ["HOME": folder.url.path]
        )
        try terminal.wait(for: "sql> ")
        terminal.press("SELECT 40 + 2;\r")
        try terminal.wait(for: "42")
        // Between two lines, the terminal takes Ctrl-D as the end of a line.
        try terminal.wait("the prompt") { $0.output.hasSuffix("sql> \u{1B}[K\r\u{1B}[5C") }
        terminal.press("\u{04}")
        #expect(try terminal.waitForEnd() == 0)
        #expect(
            try String(contentsOfFile: folder.path(".roundtable_history"), encoding: .utf8) == "SELECT 40 + 2;\n"
        )
    }

    // MARK: Hints, widths, colours

    @Test func `A misspelt verb is answered with the one that was meant`() throws {
        let folder = try Folder()
        for (word, verb) in [
            ("staus", "status"), ("SQL", "sql"), ("hsitory", "history"), ("doc", "doctor"), ("tpo", "top"),
        ] {
            let result = try Tool.run(word, "a.db", in: folder)
            let text = "There is no verb '\(word)'. Did you mean '\(verb)'? Try 'roundtable --help'."
            #expect(result.code == 64 && result.errors.contains(text), "\(word): \(result.errors)")
        }
        for word in ["frobnicate", "--frob", "x"] {
            let result = try Tool.run(word, in: folder)
            #expect(result.code == 64 && !result.errors.contains("Did you mean"), "\(word): \(result.errors)")
        }
        #expect(try !Tool.run("status", "a.db", in: folder).errors.contains("Did you mean"))
        #expect(Spelling.distance("ab", "ba") == 1 && Spelling.distance("", "abc") == 3)
        #expect(Spelling.distance("kitten", "sitting") == 3)
    }

    @Test func `Lines that are too long continue where their value began`() {
        let line = "  outbox         two commands wait, the oldest for 9 min"
        #expect(
            TerminalText.wrapped(line, to: 40) == [
                "  outbox         two commands wait, the", "                 oldest for 9 min",
            ]
        )
        #expect(TerminalText.wrapped("  ! one two three", to: 12) == ["  ! one two", "    three"])
        #expect(TerminalText.wrapped("short", to: 5) == ["short"])
        // The style is given: no text has a colour because of how it begins.
        let lines = [StyledText("  ✗ bad one", .bad), "✗ ! ✓ fine"]
        #expect(
            TerminalText.fitted(lines, to: 10, isColoured: true)
                == "\u{1B}[31m  ✗ bad\u{1B}[0m\n\u{1B}[31m    one\u{1B}[0m\n✗ ! ✓ fine\n"
        )
        #expect(TerminalText.fitted(lines, to: nil, isColoured: false) == "  ✗ bad one\n✗ ! ✓ fine\n")
        var table = TextTable(columns: [("n", .left)])
        table.rows = [["1"], ["─"]]
        #expect(table.styledLines() == ["n", StyledText("─", .dim), "1", "─"])
        for width in 1...60 {
            #expect(TerminalText.wrapped(line, to: width).allSatisfy { $0.displayWidth <= width }, "\(width)")
        }
    }

    @Test func `status counts the tables of the user apart from Roundtable's`() throws {
        let folder = try database()
        let before = try Tool.run("status", "a.db", in: folder).output
        #expect(before.contains("  schema         1 table · user_version 0\n"), "\(before)")
        #expect(try Tool.run("history", "a.db", "--enable", "player", in: folder).code == 0)
        let json = try Tool.run("status", "a.db", "--json", in: folder).json?["schema"] as? [String: Any]
        let own = try #require(json?["roundtable_table_count"] as? Int)
        #expect(own > 0 && json?["table_count"] as? Int == 1)
        let text = try Tool.run("status", "a.db", in: folder).output
        #expect(text.contains("  schema         1 table, and \(own) of Roundtable's · user_version 0\n"), "\(text)")
    }

    // MARK: history

    @Test func `The last changes are shown, and further ones as they are committed`() throws {
        let folder = try database()
        #expect(try Tool.run("history", "a.db", "--enable", "player", in: folder).code == 0)
        func insert(_ name: String) throws {
            #expect(try Tool.run("sql", "a.db", "INSERT INTO player (name) VALUES ('\(name)')", in: folder).code == 0)
        }
        for name in ["a", "b", "c"] { try insert(name) }
        func keys(_ output: some StringProtocol) throws -> [Int] {
            try output.split(separator: "\n").compactMap { line in
                let change = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
                return (change?["key"] as? [String: Int])?["id"]
            }
        }
        let last = try Tool.run("history", "a.db", "--last", "2", "--json", in: folder)
        #expect(try keys(last.output) == [5, 6], "\(last.errors)")
        #expect(try keys(Tool.run("history", "a.db", "--last", "99", "--json", in: folder).output) == [4, 5, 6])
        #expect(try Tool.run("history", "a.db", "--last", "1", "--since", "a-1", in: folder).code == 64)
        #expect(try Tool.run("history", "a.db", "--last", "0", in: folder).code == 64)
        #expect(try Tool.run("history", "a.db", "--follow", "--consumers", in: folder).code == 64)

        let (output, errors) = (Pipe(), Pipe())
        let arguments = ["history", "a.db", "--last", "1", "--follow", "--json"]
        let following = try Tool.start(arguments, in: folder.url, output: output, errors: errors)
        var text = ""
        func read(until count: Int) throws {
            while text.filter({ $0 == "\n" }).count < count {
                let data = output.fileHandleForReading.availableData
                try #require(!data.isEmpty, "it ended after: \(text)")
                text += String(decoding: data, as: UTF8.self)
            }
        }
        try read(until: 1)
        try insert("d")
        try read(until: 2)
        try insert("e")
        try read(until: 3)
        #expect(try keys(text) == [6, 7, 8])
        kill(following.processIdentifier, SIGINT)
        following.waitUntilExit()
        #expect(following.terminationStatus == 130)
    }
}
