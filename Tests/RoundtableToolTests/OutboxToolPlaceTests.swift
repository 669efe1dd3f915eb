import Foundation
import Roundtable
import Testing

/// Where an outbox is looked for, and what is said where there is none; and names of files that are no names.
@Suite struct OutboxToolPlaceTests {
    private struct Note: OutboxCommand {
        static let name = "note"
        static let version = 1
        var text: String
    }

    /// Leaves a dead letter, whose outbox is not beside the database.
    private func makeApart(_ folder: Folder) throws -> String {
        let box = folder.url.appendingPathComponent("box")
        let id = try CommandOutbox(at: box, as: "widget").submit(Note(text: "one")).id.uuidString
        var options = SharedDatabase.Options()
        options.outboxFolder = box
        var handlers = OutboxHandlers()
        handlers.retries.maximumAttempts = 1
        struct NoTea: Error {}
        handlers.handle(Note.self) { _, _ in throw NoTea() }
        options.outbox = handlers
        let url = URL(fileURLWithPath: folder.path("a.db"))
        try SharedDatabase.open(at: url, schema: .unmanaged, as: "app", options: options).close()
        return id
    }

    @Test func `Where there is no outbox beside a database, it is asked for, and none is made`() throws {
        let folder = try Folder()
        let id = try makeApart(folder)
        let missing = "No outbox beside the database (\(folder.path("a.db-outbox")))"
        let list = try Tool.run("outbox", "a.db", in: folder)
        #expect(list.code == 0 && list.output.contains(id) && list.output.contains(missing), "\(list)")
        #expect(list.output.contains("--folder FOLDER"))
        let json = try Tool.run("outbox", "a.db", "--json", in: folder)
        #expect(json.output.contains(id) && json.errors.contains(missing), "\(json)")
        for verb in ["status", "doctor"] {
            let found = try Tool.run(verb, "a.db", in: folder).output
            #expect(found.contains(missing), "\(found)")
            #expect(try !Tool.run(verb, "a.db", "--folder", "box", in: folder).output.contains("No outbox"))
        }
        let retried = try Tool.run("outbox", "a.db", "retry", id, "--yes", "--wait", "0", in: folder)
        #expect(retried.code == 1 && retried.errors.contains(missing), "\(retried)")
        let dropped = try Tool.run("outbox", "a.db", "drop", id, "--yes", in: folder)
        #expect(dropped.code == 0, "\(dropped)")
        for arguments in [[], ["--json"]] {
            let none = try Tool.run(["outbox", "a.db"] + arguments, in: folder)
            #expect(none.code == 1 && none.errors.contains("a.db: \(missing)"), "\(none)")
        }
        #expect(!FileManager.default.fileExists(atPath: folder.path("a.db-outbox")))

        // One that was made for an outbox, and holds none yet.
        let other = try makeApart(folder)
        try FileManager.default.createDirectory(atPath: folder.path("a.db-outbox"), withIntermediateDirectories: true)
        let refused = try Tool.run("outbox", "a.db", "retry", other, "--yes", "--wait", "0", in: folder)
        #expect(refused.code == 1 && refused.errors.contains("no outbox yet"), "\(refused)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path("a.db-outbox")).isEmpty)
    }

    @Test func `A database without an outbox is not said to miss one by the commands that look at databases`() throws {
        let folder = try Folder()
        try Tool.run("sql", "a.db", "CREATE TABLE t(x)", in: folder)
        for verb in ["status", "doctor"] {
            #expect(try !Tool.run(verb, "a.db", in: folder).output.contains("outbox"))
        }
        let none = try Tool.run("outbox", "a.db", in: folder)
        #expect(none.code == 1 && none.output.isEmpty && none.errors.contains("No outbox beside the database"))
    }

    @Test(arguments: ["box", "nofolder/box"])
    func `A folder that is not there is named`(box: String) throws {
        let folder = try Folder()
        try Tool.run("sql", "a.db", "CREATE TABLE t(x)", in: folder)
        for verb in ["outbox", "status", "doctor"] {
            let result = try Tool.run(verb, "a.db", "--folder", box, in: folder)
            #expect(result.code > 0 && result.output.isEmpty, "\(result)")
            #expect(
                result.errors == "roundtable: \(folder.path(box)): there is no such folder. Check the path.\n",
                "\(result.errors)"
            )
        }
        #expect(!FileManager.default.fileExists(atPath: folder.path("box")))
    }

    @Test func `Control characters in names of files do not reach the terminal`() throws {
        let folder = try Folder()
        let name = "a\u{1B}[2J\u{1B}]0;x\u{07}\u{9B}1m.db"
        let url = URL(fileURLWithPath: folder.path(name))
        try CommandOutbox(forDatabaseAt: url, as: "widget").submit(Note(text: "one"))
        let damaged = folder.path("\(name)-outbox/damaged/torn\u{1B}[2J\n! newer: no file")
        try Data("torn".utf8).write(to: URL(fileURLWithPath: damaged))
        func run(_ arguments: String...) throws -> Tool.Result {
            let result = try Tool.run(arguments, in: folder)
            let controls = (result.output + result.errors).unicodeScalars.filter {
                $0.properties.generalCategory == .control && $0 != "\n"
            }
            #expect(controls.isEmpty, "\(arguments): \(result)")
            return result
        }
        let before = try run("outbox", name).output.split(separator: "\n")
        #expect(before.contains { $0.hasPrefix("! damaged: ") && $0.contains("torn·[2J·! newer:") }, "\(before)")
        #expect(try run("outbox", name, "show", "torn").output.contains("torn·[2J"))
        #expect(try run("outbox", name, "show", "nonsense\u{1B}[2J").errors.contains("no such command"))
        #expect(try run("status", name).errors.contains("a·[2J"))
        try SharedDatabase.open(at: url, schema: .unmanaged, as: "app").close()
        for verb in ["outbox", "status", "doctor"] { #expect(try !run(verb, name).output.isEmpty) }
        #expect(try run("snapshot", "\(name)-outbox").errors.contains("a·[2J"))
    }

    /// Other file systems refuse files of this size.
    private static let memory = "/dev/shm"

    @Test(.enabled(if: FileManager.default.isWritableFile(atPath: memory), "needs \(memory)"))
    func `The sizes of sparse files may add up to more than there is`() throws {
        let folder = try Folder()
        try Tool.run("sql", "a.db", "CREATE TABLE t(x)", in: folder)
        let box = "\(Self.memory)/roundtable-tests-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: "\(box)/commands", withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: box) }
        for number in 1...2 {
            let path = "\(box)/commands/widget.0000000001.5f0c2a91.00000000000\(number).command"
            try Data().write(to: URL(fileURLWithPath: path))
            try #require(truncate(path, 0x7000_0000_0000_0000) == 0, "errno \(errno)")
        }
        let status = try Tool.run("status", "a.db", "--folder", box, in: folder)
        #expect(status.code == 0 && status.output.contains("2 commands (8,796,093,022,207 MiB) wait"), "\(status)")
        let doctor = try Tool.run("doctor", "a.db", "--folder", box, in: folder)
        #expect(doctor.code == 1 && doctor.output.contains("2 commands"), "\(doctor)")
        let list = try Tool.run("outbox", "a.db", "--folder", box, in: folder)
        #expect(list.code == 0 && list.output.contains("! damaged: "), "\(list)")
    }

    @Test func `A process that runs and is waited for is named`() throws {
        let folder = try Folder()
        let url = URL(fileURLWithPath: folder.path("a.db"))
        var options = SharedDatabase.Options()
        var handlers = OutboxHandlers()
        let gate = DispatchSemaphore(value: 0)
        handlers.handle(Note.self) { _, _ in gate.wait() }
        options.outbox = handlers
        let owners = try ["app", "newer"].map {
            try SharedDatabase.open(at: url, schema: .unmanaged, as: $0, options: options)
        }
        defer {
            gate.signal()
            for owner in owners { try? owner.close() }
        }
        // One of them is about to apply it all the while.
        try CommandOutbox(forDatabaseAt: url, as: "widget").submit(Note(text: "one"))
        let pid = ProcessInfo.processInfo.processIdentifier
        let (app, newer) = ("'app' (pid \(pid))", "'newer' (pid \(pid))")
        let text = try Tool.run("outbox", "a.db", in: folder).output
        let orders = [(app, newer), (newer, app)]
        #expect(
            orders.contains { text.contains("waits for \($0) or \($1)") || text.contains("\($0) and \($1) apply") },
            "\(text)"
        )
    }
}
