import Foundation
import Roundtable
import RoundtableTestBasics
import Testing

/// Outboxes with much in them.
@Suite struct OutboxToolListTests {
    private struct Note: OutboxCommand {
        static let name = "note"
        static let version = 1
        var text: String
    }

    /// Many files of one command: second names cost no room.
    private func fill(_ folder: Folder, count: Int, size: Int) throws -> UUID {
        let url = URL(fileURLWithPath: folder.path("a.db"))
        var options = CommandOutbox.Options()
        options.durability = .process
        let text = String(repeating: "x", count: size)
        let id = try CommandOutbox(forDatabaseAt: url, as: "widget", options: options).submit(Note(text: text)).id
        let commands = folder.path("a.db-outbox/commands")
        let first = try #require(try FileManager.default.contentsOfDirectory(atPath: commands).first)
        for number in 2...count {
            let digits = String(repeating: "0", count: 12 - "\(number)".count) + "\(number)"
            let name = first.replacing("000000000001.command", with: "\(digits).command")
            try #require(link("\(commands)/\(first)", "\(commands)/\(name)") == 0, "errno \(errno)")
        }
        return id
    }

    /// 400 MB of payloads, in an address space of which the program itself takes most.
    @Test(.long(oneIn: 32), arguments: ["", "--json", "show"])
    func `What waits is not in memory at once`(arguments: String) throws {
        let folder = try Folder()
        let id = try fill(folder, count: 1000, size: 400_000)
        let list = arguments == "show" ? "show \(id)" : arguments
        let script = "ulimit -v \(Self.limit) && exec '\(try Tool.url.path)' outbox a.db \(list) | cut -c1-600"
        let result = try Tool.run(["-c", script], in: folder, program: URL(fileURLWithPath: "/bin/sh"))
        #expect(result.errors.isEmpty, "\(result.errors)")
        let lines = result.output.split(separator: "\n").count { $0.contains(id.uuidString) }
        #expect(lines == (arguments == "show" ? 1 : 1000))
    }

    /// KiB.
    private static let limit = 350_000

    /// A columns' width is that of the first rows; all are there, in order, and what is no command comes last.
    @Test func `A long list has all rows`() throws {
        let folder = try Folder()
        let id = try fill(folder, count: 1700, size: 10)
        try Data("torn".utf8).write(to: URL(fileURLWithPath: folder.path("a.db-outbox/damaged/torn")))
        for hasDatabase in [false, true] {
            if hasDatabase { try Tool.run("sql", "a.db", "CREATE TABLE t(x)", in: folder) }
            let lines = try Tool.run("outbox", "a.db", in: folder).output.split(separator: "\n")
            #expect(lines.count == 1703 && lines[0].hasPrefix("id ") && lines[1].hasPrefix("───"))
            #expect(lines[2..<1702].allSatisfy { $0.hasPrefix(id.uuidString) && $0.count == lines[2].count })
            #expect(lines[1702].hasPrefix("! damaged: "))
            let json = try Tool.run("outbox", "a.db", "--json", in: folder).output.split(separator: "\n")
            #expect(json.count == 1701)
            for (index, line) in json.dropLast().enumerated() {
                let digits = String(repeating: "0", count: 12 - "\(index + 1)".count) + "\(index + 1)"
                #expect(line.contains("\(digits).command"), "line \(index + 1)")
            }
        }
    }

    private func setAside(_ folder: Folder, count: Int) throws -> [String] {
        let url = URL(fileURLWithPath: folder.path("a.db"))
        var outboxOptions = CommandOutbox.Options()
        outboxOptions.durability = .process
        let outbox = try CommandOutbox(forDatabaseAt: url, as: "widget", options: outboxOptions)
        let ids = try (0..<count).map { try outbox.submit(Note(text: "\($0)")).id.uuidString }
        var options = SharedDatabase.Options()
        var handlers = OutboxHandlers()
        handlers.handle(Note.self) { _, _ in throw OutboxRefusal("no tea") }
        options.outbox = handlers
        let database = try SharedDatabase.open(at: url, schema: .unmanaged, as: "app", options: options)
        _ = try database.outbox.drain(with: handlers).drain()
        #expect(try database.outbox.deadLetters().map(\.id.uuidString) == ids)
        try database.close()
        return ids
    }

    /// The dead letters of a database, page by page.
    @Test func `A long list of dead letters has all of them`() throws {
        let folder = try Folder()
        let ids = try setAside(folder, count: 230)
        let lines = try Tool.run("outbox", "a.db", in: folder).output.split(separator: "\n").dropFirst(2)
        #expect(lines.map { String($0.prefix(36)) } == ids)
    }

    /// A command is a line in a terminal of 80 columns, and the numbers are below.
    @Test(.enabled(if: PseudoTerminal.isPossible, "needs setsid(1)"))
    func `A terminal gets short ids, a reason once, and the numbers`() throws {
        let folder = try Folder()
        let ids = try setAside(folder, count: 3)
        let waiting = try CommandOutbox(forDatabaseAt: URL(fileURLWithPath: folder.path("a.db")), as: "widget")
        for _ in 0..<2 { try waiting.submit(Note(text: "")) }
        let terminal = try PseudoTerminal([Tool.url.path, "outbox", "a.db"], in: folder, columns: 80)
        #expect(try terminal.waitForEnd() == 0)
        let lines = terminal.output.split(separator: "\r\n").map(String.init)
        for id in ids { #expect(lines.contains { $0.hasPrefix("\(id.prefix(8))  set aside  ") }, "\(lines)") }
        #expect(lines.count { $0.contains("no tea") } == 1, "\(lines)")
        #expect(lines.count { $0.contains("no process runs that applies commands") } == 1, "\(lines)")
        #expect(lines.count == 2 + 5 + 2 + 1 && lines.allSatisfy { $0.count <= 80 }, "\(lines)")
        #expect(lines.last == "5 commands: 3 set aside, 2 waiting", "\(lines)")
    }

    /// Any program can write any values into the tables. None of them ends the tool by a signal.
    @Test(arguments: [("1e300", 1), ("-9e999", 1), ("9223372036854775807", 2), ("0", 0), ("x''", 0), ("'much'", 0)])
    func `What a column of dead letters has is counted`(value: String, count: Int) throws {
        let folder = try Folder()
        _ = try setAside(folder, count: 2)
        let rows = count == 1 ? " WHERE sequence = 1" : ""
        let sql = "UPDATE roundtable_outbox_dead SET is_to_be_retried = \(value)\(rows)"
        try #require(try Tool.run("sql", "a.db", sql, in: folder).code == 0)
        let status = try Tool.run("status", "a.db", "--json", in: folder)
        #expect(status.code == 0, "\(status.errors)")
        let outbox = try #require(status.json?["outbox"] as? [String: Any])
        #expect(outbox["dead_letters"] as? Int == 2 && outbox["to_be_retried"] as? Int == count)
        // No code is a signal's number.
        for verb in ["doctor", "outbox"] { #expect(try Tool.run(verb, "a.db", in: folder).code <= 2, "\(verb)") }
    }
}
