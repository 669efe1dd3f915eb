import Foundation
import GRDB
import Roundtable
import Testing

/// The live view in a terminal: keys, signals, and what is left behind.
@Suite(.enabled(if: PseudoTerminal.isPossible, "needs setsid(1)")) struct TopTerminalTests {
    private static let enter = "\u{1B}[?1049h"
    private static let leave = "\u{1B}[?1049l"

    private let folder: Folder
    private let database: SharedDatabase

    init() throws {
        folder = try Folder()
        database = try SharedDatabase.open(
            at: folder.url.appendingPathComponent("a.db"),
            schema: .unmanaged,
            as: "app"
        )
        try database.write { try $0.execute(sql: "CREATE TABLE player(name)") }
        try database.write { try $0.execute(sql: "INSERT INTO player VALUES ('Arthur')") }
    }

    private func top(_ arguments: String..., environment: [String: String] = [:]) throws -> PseudoTerminal {
        let all = [try Tool.url.path, "top", "a.db", "--every", "0.1"] + arguments
        return try PseudoTerminal(all, in: folder, environment: environment)
    }

    /// Checks that the terminal has its settings from before, and shows what it did.
    private func expectRestored(
        _ terminal: PseudoTerminal,
        _ before: [tcflag_t],
        _ location: SourceLocation = #_sourceLocation
    ) {
        #expect(PseudoTerminal.flags(terminal.settings) == before, sourceLocation: location)
        let parts = terminal.output.components(separatedBy: Self.enter)
        #expect(parts.count >= 2, sourceLocation: location)
        // Each time that the alternate screen is left, and the cursor shown.
        for part in parts.dropFirst() {
            #expect(part.contains("\u{1B}[?7h\u{1B}[?25h" + Self.leave), "\(part)", sourceLocation: location)
        }
    }

    @Test func `Keys sort, filter, pause, help and quit, and the terminal is left as it was`() throws {
        let terminal = try top()
        let before = terminal.initialFlags
        var text = try terminal.wait(for: "q quit")
        #expect(text.contains(Self.enter) && text.contains("a.db") && text.contains("COMMITS/S"), "\(text)")
        #expect(terminal.isRaw)
        #expect(text.contains("player"), "the last change: \(text)")

        func press(_ keys: String, expecting shown: String) throws {
            let start = terminal.output.count
            terminal.press(keys)
            try terminal.wait(for: shown, after: start)
        }
        try press("s", expecting: "by waits")
        try press("r", expecting: "by waits, reversed")
        try press("p", expecting: "paused")
        try press(" ", expecting: "by waits")
        try press("/zzz", expecting: "only what contains: zzz")
        try press("\r", expecting: "No participant contains 'zzz'.")
        try press("\u{1B}", expecting: "1 participant")
        try press("h", expecting: "reverse the order")
        try press("x", expecting: "COMMITS/S")

        let start = terminal.output.count
        terminal.resize(columns: 160, rows: 50)
        text = try terminal.wait(for: "LINE OF CODE", after: start)
        #expect(text.contains("every 0.1 s"), "\(text)")

        terminal.press("q")
        #expect(try terminal.waitForEnd() == 0)
        expectRestored(terminal, before)
    }

    @Test(arguments: [("\u{3}", 2), ("\u{1C}", 3)])
    func `Signals of keys end it, and the terminal is left as it was`(key: String, signal: Int32) throws {
        let terminal = try top()
        let before = terminal.initialFlags
        try terminal.wait(for: "q quit")
        terminal.press(key)
        #expect(try terminal.waitForEnd() == 128 + signal)
        expectRestored(terminal, before)
    }

    @Test(arguments: ["TERM", "HUP"])
    func `Signals of other programs end it, and the terminal is left as it was`(signal: String) throws {
        let terminal = try PseudoTerminal(
            ["/bin/sh", "-c", "echo $$ > pid; exec '\(try Tool.url.path)' top a.db"],
            in: folder
        )
        let before = terminal.initialFlags
        try terminal.wait(for: "q quit")
        let pid = try String(contentsOfFile: folder.path("pid"), encoding: .utf8)
        try #require(
            Tool.run(["-c", "kill -\(signal) \(pid)"], in: folder, program: URL(fileURLWithPath: "/bin/sh")).code == 0
        )
        #expect(try terminal.waitForEnd() == 128 + (signal == "TERM" ? SIGTERM : SIGHUP))
        expectRestored(terminal, before)
    }

    @Test func `SIGTERM ends it while no program reads what it shows, and the settings are as before`() throws {
        let terminal = try PseudoTerminal(
            ["/bin/sh", "-c", "echo $$ > pid; exec '\(try Tool.url.path)' top a.db --every 0.1"],
            in: folder
        )
        let before = terminal.initialFlags
        try terminal.waitUntilFull()
        let pid = try #require(
            Int32(try String(contentsOfFile: folder.path("pid"), encoding: .utf8).trimmingCharacters(in: .newlines))
        )
        #expect(terminal.isRaw)
        kill(pid, SIGTERM)
        #expect(try terminal.waitForEnd(isRead: false) == 128 + SIGTERM)
        #expect(PseudoTerminal.flags(terminal.settings) == before)
        // The flags of standard output, which it shares with other programs, are as before, too.
        #expect(!terminal.isNonBlocking)
    }

    @Test(.enabled(if: FileManager.default.isExecutableFile(atPath: "/bin/bash"), "needs bash"))
    func `Ctrl-Z gives the terminal back, and fg takes it again`() throws {
        let tool = try Tool.url.path
        let script =
            "set -m; '\(tool)' top a.db --every 0.1; echo stopped $?; stty -a >stopped; read line; fg; echo ended $?"
        let terminal = try PseudoTerminal(["/bin/bash", "-c", script], in: folder)
        let before = terminal.initialFlags
        try terminal.wait(for: "q quit")
        terminal.press("\u{1A}")
        try terminal.wait(for: "stopped 148")
        try terminal.wait("the settings") { _ in FileManager.default.fileExists(atPath: folder.path("stopped")) }
        expectRestored(terminal, before)
        let start = terminal.output.count
        terminal.press("\n")
        try terminal.wait(for: Self.enter, after: start)
        try terminal.wait(for: "q quit", after: start)
        #expect(terminal.isRaw)
        terminal.press("q")
        try terminal.wait(for: "ended 0", after: start)
        #expect(try terminal.waitForEnd() == 0)
        expectRestored(terminal, before)
    }

    @Test func `A database that is removed ends it with one line, on the screen as it was`() throws {
        let terminal = try top()
        let before = terminal.initialFlags
        try terminal.wait(for: "q quit")
        try database.close()
        let moved = folder.path("moved")
        try FileManager.default.createDirectory(atPath: moved, withIntermediateDirectories: false)
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.url.path) where name.hasPrefix("a.db") {
            try FileManager.default.moveItem(atPath: folder.path(name), toPath: "\(moved)/\(name)")
        }
        #expect(try terminal.waitForEnd() == 1)
        expectRestored(terminal, before)
        // The line continues between words.
        let rest = (terminal.output.components(separatedBy: Self.leave).last ?? "").replacing("\r\n", with: " ")
        #expect(rest.hasPrefix("roundtable: ") && rest.contains("there is no such file"), "\(rest)")
    }

    @Test func `Without colour, and without a cursor to move`() throws {
        let plain = try top(environment: ["NO_COLOR": "1"])
        try plain.wait(for: "q quit")
        plain.press("q")
        #expect(try plain.waitForEnd() == 0)
        // A control sequence that ends in m is one of colours.
        #expect(!plain.output.contains(#/\u{1B}\[[0-9;]*m/#), "\(plain.output)")
        let coloured = try top()
        try coloured.wait(for: "q quit")
        coloured.press("q")
        #expect(try coloured.waitForEnd() == 0)
        #expect(coloured.output.contains(#/\u{1B}\[[0-9;]+m/#))
        let dumb = try top(environment: ["TERM": "dumb"])
        try dumb.wait(for: " participant 'app'")
        dumb.press("\u{3}")
        _ = try dumb.waitForEnd()
        #expect(!dumb.output.contains("\u{1B}"), "\(dumb.output)")
    }

    @Test func `In a pipe, each look is lines, or one JSON object`() throws {
        let lines = try Tool.run("top", "a.db", "--once", in: folder).output
        let pid = ProcessInfo.processInfo.processIdentifier
        #expect(lines.contains(" commits –, 1 participant\n"), "\(lines)")
        #expect(lines.contains(" participant 'app' (pid \(pid)), writer, idle, –, longest wait "), "\(lines)")
        #expect(lines.split(separator: "\n").allSatisfy { $0.contains(#/^\d\d:\d\d:\d\d [a-z]+ /#) }, "\(lines)")
        #expect(lines.contains("'app' (pid \(pid)), player\n") && !lines.contains("\u{1B}"), "\(lines)")

        let script = "'\(try Tool.url.path)' top a.db --json --every 0.1 | head -n 3"
        let objects = try Tool.run(["-c", script], in: folder, program: URL(fileURLWithPath: "/bin/sh")).output
            .split(separator: "\n").map { try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any] }
        #expect(objects.count == 3)
        #expect(objects[0]?["commits_per_s"] == nil && objects[0]?["interval_s"] == nil)
        #expect(objects[1]?["commits_per_s"] as? Double == 0 && objects[1]?["is_exact"] as? Bool == true)
        #expect((objects[2]?["status"] as? [String: Any])?["journal_mode"] as? String == "wal")
    }

    @Test func `Looking leaves no trace`() throws {
        try database.close()
        let before = try folder.contents
        for arguments in [["top", "a.db", "--once"], ["top", "a.db", "--once", "--json"]] {
            #expect(try Tool.run(arguments, in: folder).code == 0)
        }
        #expect(try folder.contents == before)
    }
}
