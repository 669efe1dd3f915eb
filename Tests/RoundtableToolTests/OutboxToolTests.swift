import Foundation
import Roundtable
import Testing

@Suite struct OutboxToolTests {
    private struct Note: OutboxCommand {
        static let name = "note"
        static let version = 1
        var text: String
    }

    private func objects(_ output: String) throws -> [[String: Any]] {
        try output.split(separator: "\n").map { line in
            try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
        }
    }

    /// Whether a date in JSON is more than 50 minutes ahead.
    private func isLater(_ date: Any?) throws -> Bool {
        let style = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
        return try Date(#require(date as? String), strategy: style).timeIntervalSinceNow > 3000
    }

    private func open(_ folder: Folder, _ outbox: OutboxHandlers? = nil) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        options.outbox = outbox
        let url = URL(fileURLWithPath: folder.path("a.db"))
        return try SharedDatabase.open(at: url, schema: .unmanaged, as: "app", options: options)
    }

    private func outbox(_ folder: Folder) throws -> CommandOutbox {
        try CommandOutbox(forDatabaseAt: URL(fileURLWithPath: folder.path("a.db")), as: "widget")
    }

    @Test func `What waits is shown without a database, and dropped`() throws {
        let folder = try Folder()
        let outbox = try outbox(folder)
        let (one, two) = (try outbox.submit(Note(text: "one")), try outbox.submit(Note(text: "two")))
        let list = try objects(Tool.run("outbox", "a.db", "--json", in: folder).output)
        #expect(list.map { $0["id"] as? String } == [one.id.uuidString, two.id.uuidString])
        #expect(list[0]["state"] as? String == "waiting" && list[0]["payload"] as? String == #"{"text":"one"}"#)
        let text = try Tool.run("outbox", "a.db", in: folder).output
        #expect(text.contains(two.id.uuidString) && text.contains("widget"))
        #expect(text.contains("not applied yet: there is no database"))
        let shown = try Tool.run("outbox", "a.db", "show", "\(one.id.uuidString.prefix(9))", in: folder)
        #expect(shown.output.contains(#"{"text":"one"}"#) && shown.output.contains(".command"))
        #expect(!FileManager.default.fileExists(atPath: folder.path("a.db")))

        // There is no owner yet that they could wait for.
        let status = try Tool.run("status", "a.db", in: folder)
        #expect(
            status.code == 1 && status.errors.contains("there is no such file yet, and 2 commands wait"),
            "\(status)"
        )
        let doctor = try Tool.run("doctor", "a.db", in: folder)
        #expect(doctor.code == 2 && doctor.errors.contains(" outbox a.db\n"), "\(doctor)")

        var dropped = try Tool.run("outbox", "a.db", "drop", one.id.uuidString, in: folder)
        #expect(dropped.code == 1 && dropped.errors.contains("--yes"), "\(dropped.errors)")
        // A waiter is answered, though there is no owner, and no database.
        let missing = OutboxOutcome.noDatabase(path: folder.url.resolvingSymlinksInPath().path + "/a.db")
        #expect(try outbox.outcome(of: one.id, within: .zero) == missing)
        dropped = try Tool.run("outbox", "a.db", "drop", one.id.uuidString, "--yes", in: folder)
        #expect(dropped.code == 0, "\(dropped.errors)")
        #expect(try outbox.outcome(of: one.id, within: .zero) == .dropped)
        // With a database, it is recorded there.
        let database = try open(folder)
        dropped = try Tool.run("outbox", "a.db", "drop", two.id.uuidString, "--yes", in: folder)
        #expect(dropped.code == 0, "\(dropped.errors)")
        try outbox.submit(Note(text: "two"), id: two.id)
        let decided = try objects(Tool.run("outbox", "a.db", "--json", in: folder).output)
        #expect(
            decided.map { $0["state"] as? String } == ["dropped"] && decided[0]["waits_for"] as? String == "removal"
        )
        dropped = try Tool.run("outbox", "a.db", "drop", two.id.uuidString, "--yes", in: folder)
        #expect(dropped.code == 0 && dropped.errors.contains("dropped"), "\(dropped.errors)")
        #expect(try Tool.run("outbox", "a.db", "--json", in: folder).output.isEmpty)
        try outbox.submit(Note(text: "two"), id: two.id)
        var handlers = OutboxHandlers()
        handlers.handle(Note.self) { _, _ in Issue.record("it was dropped") }
        try database.close()
        try open(folder, handlers).close()
        #expect(try Tool.run("outbox", "a.db", "--json", in: folder).output.isEmpty)
    }

    @Test func `A dead letter is tried again by the running owner, or dropped`() throws {
        let folder = try Folder()
        var strict = OutboxHandlers()
        strict.retries.maximumAttempts = 1
        struct Refused: Error {}
        strict.handle(Note.self) { _, _ in throw Refused() }
        let outbox = try outbox(folder)
        let (one, two) = (try outbox.submit(Note(text: "one")), try outbox.submit(Note(text: "two")))
        try open(folder, strict).close()
        let list = try objects(Tool.run("outbox", "a.db", "--json", in: folder).output)
        #expect(list.map { $0["state"] as? String } == ["set aside", "set aside"])
        #expect(list[0]["reason"] as? String == "failed" && list[0]["attempts"] as? Int == 1)

        var kind = OutboxHandlers()
        kind.handle(Note.self) { _, _ in }
        let owner = try open(folder, kind)
        var result = try Tool.run("outbox", "a.db", "retry", one.id.uuidString, "--yes", in: folder)
        #expect(result.code == 0 && result.errors == "roundtable: applied\n", "\(result.errors)")
        result = try Tool.run("outbox", "a.db", "drop", two.id.uuidString, "--yes", in: folder)
        #expect(result.code == 0, "\(result.errors)")
        #expect(try Tool.run("outbox", "a.db", "--json", in: folder).output.isEmpty)
        try owner.close()
    }

    private func failing(_ attempts: Int, after delay: Duration) -> OutboxHandlers {
        var handlers = OutboxHandlers()
        handlers.retries.maximumAttempts = attempts
        handlers.retries.firstDelay = delay
        handlers.retries.maximumDelay = delay
        struct NoTea: Error {}
        handlers.handle(Note.self) { _, _ in throw NoTea() }
        return handlers
    }

    @Test func `A list says what each command waits for`() throws {
        let folder = try Folder()
        let outbox = try outbox(folder)
        let other = try CommandOutbox(forDatabaseAt: URL(fileURLWithPath: folder.path("a.db")), as: "other")
        let (one, two) = (try outbox.submit(Note(text: "one")), try outbox.submit(Note(text: "two")))
        var text = try Tool.run("outbox", "a.db", in: folder).output
        #expect(text.contains("not applied yet"), "\(text)")
        try open(folder).close()
        text = try Tool.run("outbox", "a.db", in: folder).output
        #expect(text.contains("no process runs that applies commands"), "\(text)")

        let owner = try open(folder, failing(8, after: .seconds(3600)))
        try other.submit(Note(text: "three"))
        func list() throws -> [[String: Any]] { try objects(Tool.run("outbox", "a.db", "--json", in: folder).output) }
        let deadline = ContinuousClock.now + .seconds(20)
        while try list().count(where: { $0["attempts"] as? Int == 1 }) < 2 {
            try #require(ContinuousClock.now < deadline, "two were never tried")
        }
        let found = Dictionary(uniqueKeysWithValues: try list().map { ($0["id"] as? String ?? "", $0) })
        let (first, second) = (found[one.id.uuidString], found[two.id.uuidString])
        #expect(first?["waits_for"] as? String == "next_try" && (first?["error"] as? String)?.contains("NoTea") == true)
        #expect(try isLater(first?["next_try"]))
        #expect(second?["waits_for"] as? String == "earlier_command" && second?["attempts"] as? Int == 0)
        #expect(second?["behind"] as? String == one.id.uuidString)
        text = try Tool.run("outbox", "a.db", in: folder).output
        #expect(text.contains("tried again at ") && text.contains("NoTea"), "\(text)")
        #expect(text.contains("behind \(one.id.uuidString.prefix(8)) of its sender"), "\(text)")
        let shown = try Tool.run("outbox", "a.db", "show", one.id.uuidString, in: folder).output
        #expect(
            shown.contains("tries      1") && shown.contains("next try   ") && shown.contains("error      NoTea"),
            "\(shown)"
        )
        try owner.close()
    }

    @Test func `A second failure is reported`() throws {
        let folder = try Folder()
        let outbox = try outbox(folder)
        let id = try outbox.submit(Note(text: "one")).id.uuidString
        var owner = try open(folder, failing(1, after: .zero))
        var result = try Tool.run("outbox", "a.db", "retry", id, "--yes", "--wait", "20", in: folder)
        #expect(result.code == 2 && result.errors.contains("set aside again (failed): NoTea"), "\(result.errors)")
        try owner.close()
        owner = try open(folder, failing(8, after: .seconds(3600)))
        result = try Tool.run("outbox", "a.db", "retry", id, "--yes", "--wait", "20", in: folder)
        #expect(result.code == 2 && result.errors.contains("failed again, and is tried again at "), "\(result.errors)")
        try owner.close()
        // The new try is shown beside the old one.
        var list = try objects(Tool.run("outbox", "a.db", "--json", in: folder).output)
        #expect(list[0]["attempts"] as? Int == 1 && list[0]["new_attempts"] as? Int == 1, "\(list)")
        #expect(try isLater(list[0]["next_try"]))
        let text = try Tool.run("outbox", "a.db", in: folder).output
        #expect(text.contains(" 1+1  tried again at ") && text.contains("NoTea"), "\(text)")
        let shown = try Tool.run("outbox", "a.db", "show", id, in: folder).output
        #expect(shown.contains("new tries  1\n") && shown.contains("next try   ") && shown.contains("new error  NoTea"))
        result = try Tool.run("outbox", "a.db", "retry", id, "--yes", "--wait", "0.1", in: folder)
        #expect(result.code == 0 && result.errors.contains("no process runs that applies commands"), "\(result.errors)")
        #expect(result.errors.contains("a program runs that has a handler for 'note' version 1."), "\(result.errors)")
        list = try objects(Tool.run("outbox", "a.db", "--json", in: folder).output)
        #expect(list.map { $0["state"] as? String } == ["to be retried"] && list[0]["new_attempts"] == nil)
        var kind = OutboxHandlers()
        kind.handle(Note.self) { _, _ in }
        try open(folder, kind).close()
        #expect(try Tool.run("outbox", "a.db", "--json", in: folder).output.isEmpty)
    }

    @Test func `An outbox that does not lie beside a database`() throws {
        let folder = try Folder()
        let box = folder.url.appendingPathComponent("box")
        let outbox = try CommandOutbox(at: box, as: "widget")
        let (one, two) = (try outbox.submit(Note(text: "one")), try outbox.submit(Note(text: "two")))
        var list = try objects(Tool.run("outbox", "box", "--json", in: folder).output)
        #expect(list.map { $0["id"] as? String } == [one.id.uuidString, two.id.uuidString])
        #expect(list[0]["attempts"] == nil)
        #expect(try Tool.run("outbox", "box", in: folder).output.contains("is in the database: name it, with --folder"))
        #expect(try outbox.outcome(of: one.id, within: .zero) == .waiting)
        // Of the folder alone, it is not known which database it is for, and whether that has applied it.
        var result = try Tool.run("outbox", "box", "drop", one.id.uuidString, "--yes", in: folder)
        #expect(result.code == 1 && result.errors.contains("outbox DATABASE --folder \(box.path)"), "\(result.errors)")
        #expect(try outbox.outcome(of: one.id, within: .zero) == .waiting)
        // Known, and not there yet.
        result = try Tool.run("outbox", "a.db", "--folder", "box", "drop", one.id.uuidString, "--yes", in: folder)
        #expect(result.code == 0 && result.errors.contains("dropped"), "\(result.errors)")
        #expect(try outbox.outcome(of: one.id, within: .zero) == .dropped)

        var options = SharedDatabase.Options()
        options.outboxFolder = box
        options.outbox = failing(1, after: .zero)
        let url = URL(fileURLWithPath: folder.path("a.db"))
        try SharedDatabase.open(at: url, schema: .unmanaged, as: "app", options: options).close()
        #expect(try Tool.run("outbox", "a.db", "--folder", "box", in: folder).output.contains("NoTea"))
        list = try objects(Tool.run("outbox", "a.db", "--folder", "box", "--json", in: folder).output)
        #expect(list.map { $0["state"] as? String } == ["set aside"])
        result = try Tool.run("outbox", "a.db", "--folder", "box", "drop", two.id.uuidString, "--yes", in: folder)
        #expect(result.code == 0, "\(result.errors)")
        #expect(try Tool.run("outbox", "a.db", "--folder", "box", "--json", in: folder).output.isEmpty)
        // Another database of the same folder.
        let other = URL(fileURLWithPath: folder.path("b.db"))
        try SharedDatabase.open(at: other, schema: .unmanaged, as: "app", options: options).close()
        result = try Tool.run("doctor", "b.db", "--folder", "box", "--json", in: folder)
        #expect(
            result.output.contains(#""shared_outbox""#) && result.output.contains("a.db, too, by 'app'"),
            "\(result)"
        )
        result = try Tool.run("status", "b.db", "--folder", "box", in: folder)
        #expect(result.output.contains("shared with ") && result.output.contains("/a.db\n"), "\(result)")
        result = try Tool.run("status", "a.db", "--folder", "box", "--json", in: folder)
        #expect(result.output.contains(#""other_databases""#) && result.output.contains("/b.db"), "\(result)")
        result = try Tool.run("outbox", ".", in: folder)
        #expect(
            result.code == 1
                && result.errors.contains(
                    "no outbox: it has no folder 'commands'. Name a database, or the outbox itself"
                ),
            "\(result.errors)"
        )
        #expect(try Tool.run("outbox", "box", "--folder", "box", in: folder).code == 1)
    }

    @Test func `What goes wrong is said in one line`() throws {
        let folder = try Folder()
        func expect(_ arguments: [String], code: Int32, _ text: String) throws {
            let result = try Tool.run(["outbox"] + arguments, in: folder)
            #expect(result.code == code && result.output.isEmpty, "\(arguments): \(result.errors)")
            #expect(result.errors.contains(text) && result.errors.split(separator: "\n").count == 1, "\(result.errors)")
        }
        try expect(["a.db"], code: 1, "no such database")
        try outbox(folder).submit(Note(text: "one"))
        try expect(["a.db", "show"], code: 64, "takes the id")
        try expect(["a.db", "list", "ABC"], code: 64, "takes no id")
        try expect(["a.db", "show", ""], code: 64, "is no id")
        try expect(["a.db", "show", "nonsense"], code: 1, "no such command")
        try expect(["a.db", "show", "00000000-0000"], code: 1, "no such command")
        try expect(["a.db", "show", "00000000", "--wait", "1"], code: 64, "--wait goes with retry")
        let id = try #require(
            try CommandOutbox.contents(forDatabaseAt: URL(fileURLWithPath: folder.path("a.db"))).waiting.first
        )
        try expect(["a.db", "retry", id.id.uuidString, "--yes"], code: 1, "waits to be applied")
    }
}
