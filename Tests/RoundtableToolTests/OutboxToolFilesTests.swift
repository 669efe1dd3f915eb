import Foundation
import Roundtable
import RoundtableTestSupport
import Testing

/// Files of an outbox that are no commands which wait.
@Suite struct OutboxToolFilesTests {
    private struct Note: OutboxCommand {
        static let name = "note"
        static let version = 1
        var text: String
    }

    private func outbox(_ folder: Folder) throws -> CommandOutbox {
        try CommandOutbox(forDatabaseAt: URL(fileURLWithPath: folder.path("a.db")), as: "widget")
    }

    private func commands(_ folder: Folder) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.path("a.db-outbox/commands")).sorted()
    }

    /// As a newer version of Roundtable would write it: format 2, and the checksum of the header.
    private func makeNewer(_ path: String) throws {
        var bytes = [UInt8](try Data(contentsOf: URL(fileURLWithPath: path)))
        bytes[8] = 2
        let sum = bytes[..<120].reduce(0xCBF2_9CE4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
        for index in 0..<8 { bytes[120 + index] = UInt8(truncatingIfNeeded: sum >> (8 * UInt64(index))) }
        try Data(bytes).write(to: URL(fileURLWithPath: path))
    }

    @Test func `Files are distinguished, and can be named and dropped`() throws {
        let folder = try Folder()
        let outbox = try outbox(folder)
        let ids = try (0..<3).map { try outbox.submit(Note(text: "\($0)")).id.uuidString }
        let names = try commands(folder)
        let inside = "a.db-outbox/commands"
        try Data("torn".utf8).write(to: URL(fileURLWithPath: folder.path("\(inside)/\(names[0])")))
        try makeNewer(folder.path("\(inside)/\(names[1])"))
        try Data().write(to: URL(fileURLWithPath: folder.path("\(inside)/.DS_Store")))
        try Data().write(to: URL(fileURLWithPath: folder.path("a.txt")))

        let list = try Tool.run("outbox", "a.db", in: folder).output
        #expect(list.contains("! damaged: ") && list.contains("! newer: ") && list.contains("newer than this program"))
        #expect(list.contains("behind \(names[1]) of its sender"), "\(list)")
        #expect(!list.contains(".DS_Store"))
        let lines = try Tool.run("outbox", "a.db", "--json", in: folder).output.split(separator: "\n").map { line in
            try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
        }
        #expect(lines.map { $0?["state"] as? String } == ["waiting", "damaged", "newer"])
        #expect(lines[0]?["waits_for"] as? String == "earlier_file" && lines[0]?["id"] as? String == ids[2])
        #expect(lines.dropFirst().allSatisfy { $0?["next"] is String && $0?["bytes"] is Int })

        func show(_ name: String) throws -> Tool.Result { try Tool.run("outbox", "a.db", "show", name, in: folder) }
        let damaged = try show(names[0])
        #expect(damaged.code == 2 && damaged.output.contains("damaged") && damaged.output.contains("cut off: 4 bytes"))
        // By its path, too.
        let newer = try show("\(inside)/\(names[1])")
        #expect(newer.code == 2 && newer.output.contains("of format 2, which is newer than this program"), "\(newer)")
        let foreign = try show(".DS_Store")
        #expect(foreign.code == 1 && foreign.errors.contains("not a command file"), "\(foreign.errors)")
        #expect(try show("a.txt").errors.contains("not a file of this outbox"))
        #expect(try show("b.txt").errors.contains("no such command"))
        let several = try show("widget.")
        #expect(several.code == 1 && several.errors.contains("3 commands or files begin with"), "\(several.errors)")
        // A command that waits by its file's name.
        #expect(try show(names[2]).output.contains(ids[2]))

        let retried = try Tool.run("outbox", "a.db", "retry", names[0], "--yes", in: folder)
        #expect(retried.code == 1 && retried.errors.contains("cannot be applied"), "\(retried.errors)")
        for name in names[..<2] {
            let dropped = try Tool.run("outbox", "a.db", "drop", name, "--yes", in: folder)
            #expect(dropped.code == 0 && dropped.errors.contains("removed "), "\(dropped.errors)")
        }
        #expect(try commands(folder) == [".DS_Store", names[2]])
    }

    @Test func `A whole file that was moved away is taken back`() throws {
        let folder = try Folder()
        let outbox = try outbox(folder)
        let id = try outbox.submit(Note(text: "one")).id
        let name = try #require(try commands(folder).first)
        func moveAway() throws {
            try FileManager.default.moveItem(
                atPath: folder.path("a.db-outbox/commands/\(name)"),
                toPath: folder.path("a.db-outbox/damaged/\(name)")
            )
        }
        try moveAway()
        let list = try Tool.run("outbox", "a.db", in: folder).output
        #expect(list.contains("! moved away: ") && list.contains("'retry' puts it back"), "\(list)")
        let shown = try Tool.run("outbox", "a.db", "show", "widget", in: folder)
        #expect(shown.code == 0 && shown.output.contains(id.uuidString) && shown.output.contains(#"{"text":"one"}"#))
        var taken = try Tool.run("outbox", "a.db", "retry", name, "--yes", in: folder)
        #expect(taken.code == 0 && taken.errors.contains("taken back: \(id)"), "\(taken.errors)")
        #expect(try commands(folder) == [name])

        // With an owner, it waits for what comes of it.
        try moveAway()
        var options = SharedDatabase.Options()
        var handlers = OutboxHandlers()
        handlers.handle(Note.self) { _, _ in }
        options.outbox = handlers
        let url = URL(fileURLWithPath: folder.path("a.db"))
        let owner = try SharedDatabase.open(at: url, schema: .unmanaged, as: "app", options: options)
        taken = try Tool.run("outbox", "a.db", "retry", name, "--yes", "--wait", "20", in: folder)
        #expect(taken.code == 0 && taken.errors.hasSuffix("roundtable: applied\n"), "\(taken.errors)")
        // The owner answers first, and then removes the file.
        try RoundtableTestKit.eventually("the file is removed") { try commands(folder).isEmpty }
        try owner.close()
    }

    /// An owner moves it away as it is, and no other program removes it.
    @Test(arguments: ["damaged", "commands"])
    func `A folder is dropped with all that is in it`(place: String) throws {
        let folder = try Folder()
        try outbox(folder).submit(Note(text: "one"))
        let name = "widget.0000000001.5f0c2a91.000000000001.command"
        let path = folder.path("a.db-outbox/\(place)/\(name)")
        for inner in ["empty", "full/inner"] {
            try FileManager.default.createDirectory(atPath: "\(path)/\(inner)", withIntermediateDirectories: true)
        }
        try Data().write(to: URL(fileURLWithPath: "\(path)/full/inner/file"))
        // Nothing that a link in it leads to is removed.
        try Data("kept".utf8).write(to: URL(fileURLWithPath: folder.path("kept")))
        try FileManager.default.createSymbolicLink(atPath: "\(path)/link", withDestinationPath: folder.path("kept"))
        try FileManager.default.createSymbolicLink(atPath: "\(path)/full/up", withDestinationPath: folder.url.path)
        #expect(try Tool.run("outbox", "a.db", in: folder).output.contains("! damaged: "))
        let dropped = try Tool.run("outbox", "a.db", "drop", name, "--yes", in: folder)
        #expect(dropped.code == 0 && dropped.errors == "roundtable: removed \(path)\n", "\(dropped)")
        #expect(!FileManager.default.fileExists(atPath: path))
        #expect(FileManager.default.contents(atPath: folder.path("kept")) == Data("kept".utf8))
        #expect(try commands(folder).count == 1)
    }

    private static let unshare = "/usr/bin/unshare"

    @Test(
        .enabled(if: getuid() == 0 && FileManager.default.isExecutableFile(atPath: unshare), "needs root and unshare")
    )
    func `On a read-only file system, it looks, and says why it changes nothing`() throws {
        let folder = try Folder()
        let id = try outbox(folder).submit(Note(text: "one")).id.uuidString
        func run(_ arguments: String) throws -> Tool.Result {
            let mount = "mount --bind . . && mount -o remount,ro,bind . && cd \"$PWD\""
            let script = "\(mount) && exec '\(try Tool.url.path)' outbox a.db \(arguments)"
            return try Tool.run(
                ["-m", "/bin/sh", "-c", script],
                in: folder,
                program: URL(fileURLWithPath: Self.unshare)
            )
        }
        let dropped = try run("drop \(id) --yes")
        #expect(dropped.code == 1 && dropped.errors.contains("mounted read-only"), "\(dropped.errors)")
        #expect(dropped.errors.split(separator: "\n").count == 1 && !dropped.errors.contains("errno"))
        #expect(try run("list").output.contains(id))
        // The database is open in no process.
        var options = SharedDatabase.Options()
        options.drainOnOpen = false
        let url = URL(fileURLWithPath: folder.path("a.db"))
        try SharedDatabase.open(at: url, schema: .unmanaged, as: "app", options: options).close()
        #expect(try run("drop \(id) --yes").errors.contains("mounted read-only"))
        let list = try run("list")
        #expect(list.output.contains(id), "\(list)")
        #expect(try commands(folder).count == 1)
    }
}
