import Foundation
import Roundtable
import Testing

@testable import RoundtableReplication
@testable import RoundtableTool
@testable import RoundtableToolSupport

/// The columns that text takes, and output that fits a terminal without a broken word.
@Suite(.timeLimit(.minutes(2))) struct TerminalWidthTests {
    // MARK: Columns

    @Test(arguments: [
        ("", 0), ("abc", 3), ("é", 1), ("e\u{301}", 1), ("\u{301}", 0), ("a\u{200B}b", 2), ("so\u{AD}ft", 5),
        ("漢字", 4), ("ｆｕｌｌ", 8), ("ﾊﾝ", 2), ("한", 2), ("\u{1112}\u{1161}\u{11AB}", 2), ("か\u{3099}", 2),
        ("𠀀", 2), ("⌚", 2), ("✓", 1), ("☺", 1), ("☺\u{FE0F}", 2), ("❤\u{FE0F}", 2), ("🌶", 1), ("🌶\u{FE0F}", 2),
        ("1\u{FE0F}\u{20E3}", 2), ("🚀", 2), ("🟢", 2), ("🫠", 2), ("👍🏽", 2), ("🇩🇪", 2), ("🇩🇪🇫🇷", 4),
        ("👨\u{200D}👩\u{200D}👧\u{200D}👦", 2), ("🏳\u{FE0F}\u{200D}🌈", 2), ("❤\u{200D}🔥", 2), ("a\u{FE0F}", 1),
        ("\u{1B}", 1), ("–…─", 3),
        // Several scalars of one character take columns: a vowel sign, a conjunct, two consonants of a syllable.
        ("का", 2), ("நி", 2), ("क्ष", 2), ("\u{1100}\u{1100}\u{1161}", 4),
    ])
    func `A text takes as many columns as a terminal gives its characters`(text: String, columns: Int) {
        #expect(text.displayWidth == columns, "\(text.unicodeScalars.map { String($0.value, radix: 16) })")
        #expect(text.prefix(columns: columns) == text)
        #expect(columns == 0 || text.prefix(columns: columns - 1).displayWidth < columns)
        #expect(text.padded(to: 10).displayWidth == 10)
    }

    // MARK: Lines

    @Test func `Further lines begin in the column of the value, whatever characters are before it`() {
        #expect(
            TerminalText.wrapped("  漢字  one two three four five", to: 24)
                == ["  漢字  one two three", "        four five"]
        )
        let marked = TerminalText.wrapped("🚀 one two three four five six", to: 20)
        #expect(marked == ["🚀 one two three", "   four five six"])
        // Combining marks take no column.
        #expect(
            TerminalText.wrapped("e\u{301}e\u{301}  one two three four five", to: 20)
                == ["e\u{301}e\u{301}  one two three", "    four five"]
        )
        #expect(TerminalText.wrapped("漢字  one two three four", to: 20, hang: 6).last == "      four")
        // A column in the middle of a word is not used.
        #expect(TerminalText.wrapped("漢字漢字 one two three four", to: 20, hang: 6).last == "three four")
    }

    @Test func `A tab is the spaces up to the next tab stop`() {
        #expect("a\tb\t\tc".withExpandedTabs == "a       b               c")
        #expect("漢字\tb".withExpandedTabs == "漢字    b")
        let indented = TerminalText.wrapped("\tone two three\tfour five", to: 24)
        #expect(indented == ["        one two three", "        four five"])
        #expect(TerminalText.fitted("a\tb\n", to: 80) == "a       b\n")
        // A table cannot keep tabs, because its columns move them.
        var table = TextTable(columns: [("name", .left), ("n", .right)])
        table.rows = [["a\tb\nc", "1"]]
        #expect(table.lines.last == "a·b·c  1")
    }

    @Test func `Spaces within a line stay, and only a word that is wider than the terminal exceeds it`() {
        #expect(
            TerminalText.wrapped("  \"a\" : \"one  two  three  four\"", to: 24, hang: 2)
                == ["  \"a\" : \"one  two  three", "  four\""]
        )
        let fits = String(repeating: "x", count: 35)
        let path = String(repeating: "y", count: 50)
        #expect(
            TerminalText.wrapped("  file      \(fits) end", to: 40) == ["  file", "     " + fits, "            end"]
        )
        #expect(
            TerminalText.wrapped("  file      \(path) at the end", to: 40)
                == ["  file      " + path, "            at the end"]
        )
        #expect(TerminalText.wrapped("xxxxxxx", to: 3) == ["xxx", "xxx", "x"])
        #expect(TerminalText.wrapped("漢字", to: 1) == ["漢", "字"])
    }

    // MARK: Tables

    @Test func `The columns that do not fit follow below their row`() {
        var table = TextTable(columns: [("id", .left), ("n", .right), ("state", .left), ("why", .left)])
        table.rows = [["Arthur", "1", "waits", "for the owner of the sword"], ["B", "22", "", ""]]
        let whole = table.lines
        #expect(whole == table.lines(in: 100) && whole.count == 4)
        #expect(
            table.lines(in: 24) == [
                "id       n  state", "──────  ──  ─────", "Arthur   1  waits", "    why: for the owner",
                "    of the sword", "B       22",
            ]
        )
        #expect(
            table.lines(in: 16) == [
                "id       n", "──────  ──", "Arthur   1", "    state: waits", "    · why: for", "    the owner of",
                "    the sword", "B       22",
            ]
        )
        var layout: TextTable.Layout?
        _ = table.lines(continuing: &layout, in: 24)
        // A later row whose cells are wider than the columns.
        table.rows = [["Guinevere and Lancelot", "3", "away", ""]]
        #expect(table.lines(continuing: &layout, in: 24) == ["Guinevere and Lancelot", "    n: 3 · state: away"])
        table.rows = []
        layout = nil
        #expect(table.lines(continuing: &layout, in: 24, minimums: ["id": 12]).first == "id            n  state")
        for width in 1...60 {
            table.rows = [["漢字", "1", "🚀 waits", "for the owner of the sword"]]
            #expect(table.lines(in: width).allSatisfy { $0.displayWidth <= max(2, width) }, "\(width)")
        }
    }

    // MARK: Programs

    private struct Note: OutboxCommand {
        static let name = "note"
        static let version = 1
        var text: String
    }

    private static let words = (1...40).map { "word\($0)" }.joined(separator: " ")

    /// The lines without colours.
    private static func lines(_ output: some StringProtocol) -> [String] {
        String(output).replacing(/\u{1B}\[[0-9;]*m/, with: "").split(separator: "\r\n").map(String.init)
    }

    /// Expects lines of at most 80 columns. Only a line that ends with a word that is wider, such as a path, may be longer.
    private static func expectFit(_ lines: [String], _ location: SourceLocation = #_sourceLocation) {
        #expect(lines.count > 2, sourceLocation: location)
        for line in lines where line.displayWidth > 80 {
            let last = line.split(separator: " ").last.map(String.init) ?? ""
            #expect(last.displayWidth > 80, "\(line.displayWidth) columns: \(line)", sourceLocation: location)
        }
    }

    private static func words(_ text: String) -> [String] {
        text.split { $0.isWhitespace }.map(String.init)
    }

    @Test(.enabled(if: PseudoTerminal.isPossible, "needs setsid(1)"))
    func `watch fits its lines to 80 columns`() throws {
        let folder = try Folder()
        let tables = (1...12).map { "account\($0)" }
        let create = tables.map { "CREATE TABLE \($0)(x);" }.joined()
        try #require(try Tool.run("sql", "a.db", create, in: folder).code == 0)
        let terminal = try PseudoTerminal([Tool.url.path, "watch", "a.db", "--count", "2"], in: folder)
        try terminal.wait(for: "a.db\r\n")
        let start = terminal.output.count
        let insert = tables.map { "INSERT INTO \($0) VALUES (1);" }.joined()
        for author in ["漢字 the writer", "bob"] {
            let result = try Tool.run("sql", "--as", author, "a.db", "BEGIN; \(insert) COMMIT", in: folder)
            try #require(result.code == 0, "\(result.errors)")
        }
        #expect(try terminal.waitForEnd() == 0)
        let lines = Self.lines(terminal.output.dropFirst(start))
        Self.expectFit(lines)
        let words = Self.words(lines.joined(separator: "\n")).filter { $0.hasPrefix("account") }
        let names = tables.sorted().joined(separator: ", ")
        #expect(words.joined(separator: " ") == "\(names) \(names)", "\(lines)")
        // The first author is wider than its column, so its further lines begin below it.
        let further = lines.filter { $0.hasPrefix(" ") }.map { line in line.prefix { $0 == " " }.count }
        #expect(Set(further) == [14, WatchFormat.tablesColumn], "\(lines)")
    }

    @Test(.enabled(if: PseudoTerminal.isPossible, "needs setsid(1)"))
    func `history --follow fits its lines to 80 columns, and so does history`() throws {
        let folder = try Folder()
        let create = "CREATE TABLE player (id INTEGER PRIMARY KEY, name TEXT, note TEXT)"
        try #require(try Tool.run("sql", "a.db", create, in: folder).code == 0)
        let enable = ["history", "a.db", "--enable", "player", "--columns", "--keep", "note", "--keep-updates"]
        let enabled = try Tool.run(enable, in: folder)
        try #require(enabled.code == 0, "\(enabled.errors)")
        let terminal = try PseudoTerminal([Tool.url.path, "history", "a.db", "--follow"], in: folder)
        try terminal.wait(for: "──\u{1B}[0m\r\n")
        for sql in [
            "INSERT INTO player VALUES (1, 'Arthur', '\(Self.words)')", "UPDATE player SET name = 'x', note = 'end'",
            "INSERT INTO player VALUES (2, 'last', NULL)",
        ] { try #require(try Tool.run("sql", "--as", "the writer", "a.db", sql, in: folder).code == 0) }
        try terminal.wait("the last change") { $0.output.hasSuffix("insert     2\r\n") }
        terminal.press("\u{3}")
        #expect(try terminal.waitForEnd() == 130)
        let lines = Self.lines(terminal.output)
        Self.expectFit(lines)
        let whole = Self.words(lines.joined(separator: "\n")).joined(separator: " ")
        #expect(whole.contains("old values: note: \(Self.words)"), "\(lines)")
        #expect(lines.contains { $0.contains("insert     1") } && lines.contains { $0.hasPrefix("    ") }, "\(lines)")

        for more in [[], ["--consumers"]] {
            let page = try PseudoTerminal([Tool.url.path, "history", "a.db"] + more, in: folder)
            #expect(try page.waitForEnd() == 0)
            Self.expectFit(Self.lines(page.output))
            #expect(page.output.contains("──\u{1B}[0m\r\n"), "\(page.output.debugDescription)")
        }
        // In a pipe, each change is one line.
        let piped = try Tool.run("history", "a.db", in: folder).output.split(separator: "\n")
        #expect(piped.contains { $0.hasSuffix("note: \(Self.words)") } && piped.count == 6, "\(piped)")
    }

    @Test(.enabled(if: PseudoTerminal.isPossible, "needs setsid(1)"))
    func `outbox fits its list and its commands to 80 columns`() throws {
        let folder = try Folder()
        let outbox = try CommandOutbox(forDatabaseAt: URL(fileURLWithPath: folder.path("a.db")), as: "widget")
        let command = try outbox.submit(Note(text: Self.words))
        try Data("torn".utf8).write(to: URL(fileURLWithPath: folder.path("a.db-outbox/damaged/torn")))
        func shown(_ arguments: String...) throws -> [String] {
            let terminal = try PseudoTerminal([Tool.url.path, "outbox", "a.db"] + arguments, in: folder)
            #expect(try terminal.waitForEnd() == 0)
            let lines = Self.lines(terminal.output)
            Self.expectFit(lines)
            return lines
        }
        let list = try shown()
        #expect(
            list.contains { $0.hasPrefix("\(command.id.uuidString.prefix(8))  ") }
                && list.first?.hasPrefix("id  ") == true,
            "\(list)"
        )
        #expect(
            list.contains { $0.hasPrefix("    why: not applied") } && list.contains { $0.hasPrefix("! ") },
            "\(list)"
        )
        let details = try shown("show", "\(command.id)")
        let piped = try Tool.run("outbox", "a.db", "show", "\(command.id)", in: folder).output
        #expect(Self.words(details.joined(separator: "\n")) == Self.words(piped))
        #expect(piped.contains(Self.words), "\(piped)")
        // In a pipe, each command is one line.
        let whole = try Tool.run("outbox", "a.db", in: folder).output.split(separator: "\n")
        #expect(whole.count { $0.hasPrefix("\(command.id)") && $0.contains("there is no database") } == 1, "\(whole)")
    }

    @Test(.enabled(if: PseudoTerminal.isPossible, "needs setsid(1)"), arguments: ["status", "doctor"])
    func `status and doctor fit their sentences to 80 columns`(command: String) throws {
        let folder = try Folder()
        try #require(try Tool.run("sql", "a.db", "CREATE TABLE player (id INTEGER PRIMARY KEY)", in: folder).code == 0)
        // As after a crash: status and doctor say in a long sentence what they do not know.
        try FileManager.default.removeItem(atPath: folder.path("a.db-shm"))
        try Data(count: 200).write(to: folder.url.appendingPathComponent("a.db-wal"))
        let piped = try Tool.run(command, "a.db", in: folder).output
        #expect(piped.split(separator: "\n").contains { $0.count > 100 }, "\(piped)")
        let terminal = try PseudoTerminal([Tool.url.path, command, "a.db"], in: folder)
        #expect(try terminal.waitForEnd() == 0)
        let lines = Self.lines(terminal.output)
        Self.expectFit(lines)
        #expect(Self.words(lines.joined(separator: "\n")) == Self.words(piped), "\(lines)")
    }

    @Test(.enabled(if: PseudoTerminal.isPossible, "needs setsid(1)"))
    func `snapshot fits a value to 80 columns`() throws {
        let folder = try Folder()
        let encoding = SnapshotEncoding<String>.custom(encode: { Data($0.utf8) }, decode: { data, _ in "\(data)" })
        let url = URL(fileURLWithPath: folder.path("a.snapshot"))
        try SnapshotFile(at: url, version: 1, as: "app", encoding: encoding).write("a\tb\n\(Self.words)")
        for more in [[], ["--watch", "--count", "1"]] {
            let terminal = try PseudoTerminal([Tool.url.path, "snapshot", "a.snapshot"] + more, in: folder)
            #expect(try terminal.waitForEnd() == 0)
            let lines = Self.lines(terminal.output)
            Self.expectFit(lines)
            let value = lines.drop { $0 != "a       b" }
            #expect(Self.words(value.dropFirst().joined(separator: "\n")) == Self.words(Self.words), "\(lines)")
        }
        let piped = try Tool.run("snapshot", "a.snapshot", in: folder).output
        #expect(piped.hasSuffix("\na\tb\n\(Self.words)\n"), "\(piped)")
    }
}
