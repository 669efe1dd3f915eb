import Foundation
import Roundtable
import Testing

@testable import RoundtableTool

/// What `--json` prints follows one rule in all verbs: docs/TOOL.md has it.
@Suite(.timeLimit(.minutes(2))) struct JSONOutputTests {
    private struct Note: OutboxCommand {
        static let name = "note"
        static let version = 1
        var text: String
    }

    /// A database with a history, a closed one without, an outbox with a command that waits and one that was set aside, and a snapshot file.
    private static func world() throws -> Folder {
        let folder = try Folder()
        for name in ["a.db", "b.db", "c.db"] {
            try Tool.run("sql", name, "CREATE TABLE t(id INTEGER PRIMARY KEY, x, y)", in: folder)
        }
        try Tool.run("history", "a.db", "--enable", "t", "--columns", "--keep", "x", in: folder)
        let insert = "INSERT INTO t(x) VALUES (NULL); UPDATE t SET x = 2"
        try Tool.run("sql", "a.db", "\(insert); DELETE FROM t", in: folder)
        let url = URL(fileURLWithPath: folder.path("a.db"))
        let outbox = try CommandOutbox(forDatabaseAt: url, as: "widget")
        try outbox.submit(Note(text: "one"))
        var options = SharedDatabase.Options()
        var handlers = OutboxHandlers()
        handlers.retries.maximumAttempts = 1
        struct Refused: Error {}
        handlers.handle(Note.self) { _, _ in throw Refused() }
        options.outbox = handlers
        try SharedDatabase.open(at: url, schema: .unmanaged, as: "app", options: options).close()
        try outbox.submit(Note(text: "two"))
        let snapshot = SnapshotFile<[String: Int?]>(at: URL(fileURLWithPath: folder.path("a.snapshot")), as: "app")
        let _: SnapshotInfo = try snapshot.write(["openTasks": nil])
        try Data("a letter".utf8).write(to: folder.url.appendingPathComponent("letter.txt"))
        return folder
    }

    // MARK: The rule

    /// Exit codes that docs/TOOL.md lists.
    private static let exitCodes: Set<Int32> = [0, 1, 2, 64]
    /// Keys whose values are the user's own: a value of a snapshot, and those of a row.
    private static let foreignKeys: Set = ["value", "key", "old_values", "convicted_by_rule"]
    private static let dates: Set = [
        "time", "joined_at", "since", "submitted", "set_aside", "next_try", "changed", "last_seen", "last_sync",
        "last_round", "ready_since", "at",
    ]

    private static func check(_ value: Any, _ place: String) {
        switch value {
        case is NSNull: Issue.record("\(place): null")
        case let list as [Any]: for item in list { check(item, place) }
        case let object as [String: Any]:
            for (key, value) in object {
                let place = "\(place).\(key)"
                #expect(key.wholeMatch(of: /[a-z][a-z0-9]*(_[a-z0-9]+)*/) != nil, "\(place)")
                if foreignKeys.contains(key) { continue }
                if dates.contains(key), place != "demo.commands.submitted" {
                    let text = value as? String
                    let isDate = text?.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z/) != nil
                    #expect(isDate, "\(place): \(value)")
                } else if ["_s", "_ms", "_us"].contains(where: key.hasSuffix) || key.hasSuffix("seconds") {
                    #expect((value as? Double).map { $0 >= 0 } == true, "\(place): \(value)")
                }
                check(value, place)
            }
        default: break
        }
    }

    /// The objects of an output: one in several lines, or one a line.
    private static func objects(_ output: String) throws -> [[String: Any]] {
        if let one = try? JSONSerialization.jsonObject(with: Data(output.utf8)) as? [String: Any] { return [one] }
        return try output.split(separator: "\n").map { line in
            try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any], "\(line)")
        }
    }

    /// - returns: the objects.
    @discardableResult
    private static func expectRule(
        _ result: Tool.Result,
        _ arguments: [String],
        code: Int32,
        isEmpty: Bool = false
    ) throws -> [[String: Any]] {
        #expect(result.code == code && exitCodes.contains(code), "\(arguments): \(result)")
        let objects = try objects(result.output)
        #expect(objects.isEmpty == isEmpty, "\(arguments): \(result)")
        for object in objects {
            #expect(object["format"] as? Int == 1, "\(arguments): \(object)")
            check(object, arguments[0])
        }
        return objects
    }

    // MARK: Values

    private static let looks: [(arguments: [String], code: Int32)] = [
        (["status", "a.db"], 0), (["top", "a.db", "--once"], 0), (["doctor", "b.db"], 0),
        (["doctor", "a.db", "--check"], 1), (["history", "a.db"], 0), (["history", "a.db", "--consumers"], 0),
        (["history", "b.db", "--enable", "t"], 0), (["history", "b.db", "--disable", "t"], 0),
        (["snapshot", "a.snapshot"], 0), (["snapshot", "a.snapshot", "--watch", "--count", "1"], 0),
        (["snapshot", "no.snapshot"], 1), (["snapshot", "letter.txt"], 1), (["outbox", "a.db"], 0),
        (["outbox", "list", "a.db"], 0), (["demo", "--seconds", "0.2", "--processes", "5"], 0),
        (["replace", "b.db", "--with", "c.db"], 0), (["quarantine", "c.db"], 0),
    ]

    @Test func `Each object has its format, keys in snake case, dates of ISO 8601, and no null`() throws {
        let folder = try Self.world()
        var verbs: Set<String> = []
        for (arguments, code) in Self.looks {
            let result = try Tool.run(arguments + ["--json"], in: folder)
            let isEmpty = arguments.contains("--consumers")
            try Self.expectRule(result, arguments, code: code, isEmpty: isEmpty)
            verbs.insert(arguments[0])
        }
        let items = try Self.objects(Tool.run("outbox", "a.db", "--json", in: folder).output)
        for item in items {
            let id = try #require(item["id"] as? String)
            for action in [["show"], ["drop", "--yes"]] {
                let arguments = ["outbox", action[0], "a.db", id] + action.dropFirst()
                let result = try Tool.run(arguments + ["--json"], in: folder)
                let found = try Self.expectRule(result, arguments, code: 0)
                #expect(found.first?["id"] as? String == id, "\(found)")
            }
        }
        #expect(items.count == 2, "\(items)")
        #if os(Linux)
            let police = ["police", "--freezes", "1"]
            let result = try Tool.run(police + ["--json", "--", "/bin/sleep", "30"], in: folder)
            try Self.expectRule(result, police, code: 0)
        #endif
        try Self.expectRule(watch(folder), ["watch"], code: 0)
        // Those that need other programs are checked with their errors. `record` and `sql` have formats of their own.
        let others = ["sql", "record", "replicate", "restore", "follow", "promote", "police", "watch"]
        #expect(Set(Root.verbs) == verbs.union(others))
    }

    /// One change, as `watch` prints it.
    private func watch(_ folder: Folder) throws -> Tool.Result {
        let (output, errors) = (Pipe(), Pipe())
        let arguments = ["watch", "a.db", "--count", "1", "--json", "--timeout", "60"]
        let process = try Tool.start(arguments, in: folder.url, output: output, errors: errors)
        // It says that it watches.
        _ = errors.fileHandleForReading.availableData
        try Tool.run("sql", "a.db", "INSERT INTO t(x) VALUES (1)", in: folder)
        let text = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return Tool.Result(code: process.terminationStatus, output: String(decoding: text, as: UTF8.self), errors: "")
    }

    // MARK: Errors

    private static let failures: [(arguments: [String], code: Int32)] = [
        (["status", "no.db"], 1), (["top", "no.db", "--once"], 1), (["doctor", "no.db"], 2), (["watch", "no.db"], 1),
        // What is asked about is not there.
        (["history", "no.db"], 1), (["history", "b.db"], 1), (["outbox", "no.db"], 1), (["outbox", "b.db"], 1),
        (["outbox", "a.db", "show", "ABCD"], 1), (["history", "a.db", "--since", "0000000000000000-1"], 2),
        (["snapshot", "."], 1), (["demo", "--at", "no/a.db"], 1), (["replace", "b.db", "--with", "no.db"], 1),
        (["quarantine", "no.db"], 1), (["status", "letter.txt"], 1), (["top", "letter.txt", "--once"], 1),
        // Wrong arguments.
        (["status"], 64), (["top", "a.db", "--every", "0"], 64), (["demo", "--processes", "0"], 64), (["a.db"], 64),
        (["police", "--freezes", "0"], 64), (["replicate", "a.db"], 64), (["restore", "a"], 64), (["follow"], 64),
        (["promote"], 64), (["outbox", "ship", "a.db"], 64), (["outbox", "collect", "a.db"], 64),
    ]

    @Test func `An error is an object, and a line on standard error`() throws {
        let folder = try Self.world()
        for (arguments, code) in Self.failures {
            let result = try Tool.run(arguments + ["--json"], in: folder)
            let objects = try Self.expectRule(result, arguments, code: code)
            let error = try #require(objects.last?["error"] as? [String: Any], "\(arguments): \(result)")
            #expect(objects.count == 1 && error["exit_code"] as? Int32 == code, "\(arguments): \(result)")
            let message = try #require(error["message"] as? String)
            #expect(result.errors == "roundtable: \(message)\n", "\(arguments)")
            // Without --json, standard output stays empty.
            let plain = try Tool.run(arguments, in: folder)
            #expect(
                plain.code == code && plain.output.isEmpty && plain.errors == result.errors,
                "\(arguments): \(plain)"
            )
        }
        // Rows have the keys of their columns, and an error could pass for one.
        let rows = try Tool.run("sql", "a.db", "SELECT * FROM nothing", "--json", in: folder)
        #expect(rows.code == 1 && rows.output.isEmpty, "\(rows)")
    }
}
