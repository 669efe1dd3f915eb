import Foundation
import GRDB
import Roundtable
import RoundtableKernel
import Testing

@testable import RoundtableReplication
@testable import RoundtableTool
@testable import RoundtableToolSupport

/// `roundtable record`: its lines, and the file that keeps the last seconds. `make test-inspector` tests what a running recorder does.
struct RecordTests {
    private let folder: Folder

    init() throws { folder = try Folder() }

    private func open() throws -> SharedDatabase {
        let url = folder.url.appendingPathComponent("a.db")
        return try SharedDatabase.open(at: url, schema: .unmanaged, as: "app")
    }

    /// Looks until there is a line of this kind.
    private func line(_ kind: String, _ recorder: inout Recorder) throws -> [String: Any] {
        let deadline = Date(timeIntervalSinceNow: 30)
        while Date() < deadline {
            for line in recorder.look() {
                let object = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
                #expect(line.hasSuffix("\n") && line.dropLast().allSatisfy { $0 != "\n" })
                #expect(object["time"] is Double)
                if object["kind"] as? String == kind { return object }
            }
        }
        Issue.record("no line of the kind '\(kind)'")
        return [:]
    }

    @Test func `A database that is not there is a problem, and is looked at when it is there`() throws {
        var recorder = Recorder(folder.url.appendingPathComponent("a.db"), every: 0.1, turnsEvery: 3600)
        #expect(
            try line("problem", &recorder)["message"] as? String
                == "\(folder.path("a.db")): there is no such file. Check the path."
        )
        // As long as the problem stays the same, there is no second line.
        for _ in 1...2 {
            let due = recorder.deadline
            while recorder.deadline == due { #expect(recorder.look().isEmpty) }
        }
        #expect(recorder.problem != nil)
        let database = try open()
        try database.write { try $0.execute(sql: "CREATE TABLE player(name); INSERT INTO player VALUES ('Arthur')") }
        let sample = try line("sample", &recorder)
        let tables = try #require((sample["sizes"] as? [String: Any])?["tables"] as? [[String: Any]])
        #expect(tables.contains { $0["name"] as? String == "player" })
        #expect((sample["top"] as? [String: Any])?["status"] != nil)
    }

    @Test func `Turns are counted from look to look`() throws {
        let database = try open()
        try database.write { try $0.execute(sql: "CREATE TABLE player(name)") }
        var recorder = Recorder(folder.url.appendingPathComponent("a.db"), every: 3600, turnsEvery: 0.01)
        _ = try line("sample", &recorder)
        // The first look at the turns has nothing to compare them with. The second one says that no process writes, once.
        #expect((try line("turns", &recorder)["participants"] as? [Any])?.isEmpty == true)
        for number in 1...3 { try database.write { try $0.execute(sql: "INSERT INTO player VALUES (\(number))") } }
        let participants = try #require(try line("turns", &recorder)["participants"] as? [[String: Any]])
        #expect(participants.count == 1)
        #expect(participants.first?["author"] as? String == "app")
        #expect(participants.first?["turns"] as? Int == 3)
        #expect(participants.first?["waiting_s"] == nil)
    }

    /// Any process that may write the control block may write anything into it: here two slots with one participant, whose turns are as many as fit.
    @Test func `Damaged numbers in the control block end neither a recorder nor a live view`() throws {
        let database = try open()
        try database.write { try $0.execute(sql: "CREATE TABLE player(name)") }
        var recorder = Recorder(folder.url.appendingPathComponent("a.db"), every: 0.1, turnsEvery: 0.01)
        _ = try line("sample", &recorder)
        // The second look says that no process writes. What follows is compared with it.
        _ = try line("turns", &recorder)
        let block = try FileHandle(forUpdating: URL(fileURLWithPath: ControlBlock.path(forDatabaseAt: database.path)))
        defer { try? block.close() }
        func slot(_ index: Int) -> UInt64 { UInt64(Layout.headerSize + index * Layout.slotSize) }
        try block.seek(toOffset: slot(0))
        var content = try #require(try block.read(upToCount: Layout.slotSize))
        let turns = Layout.SlotNumber.turnsTaken.rawValue
        content.replaceSubrange(turns..<turns + 8, with: Data(repeating: 0xFF, count: 8))
        for index in 0...1 {
            try block.seek(toOffset: slot(index))
            try block.write(contentsOf: content)
        }
        let participants = try #require(try line("turns", &recorder)["participants"] as? [[String: Any]])
        #expect(participants.count == 2 && participants.allSatisfy { $0["turns"] as? Int ?? 0 > 0 })
        let top = try #require(try line("sample", &recorder)["top"] as? [String: Any])
        #expect((top["rates"] as? [Any])?.isEmpty == false)
    }

    @Test func `A recorder that is started again and again does not let its file grow`() throws {
        let path = folder.path("a.recording")
        let header = #"{"kind":"recording","time":1000}"# + "\n"
        func line(_ second: Int) -> String { #"{"kind":"turns","time":\#(second)}"# + "\n" }
        for start in stride(from: 1000, to: 1100, by: 10) {
            var file = try RecordingFile(path: path, header: header, keep: 20_000_000_000)
            for second in start..<start + 10 { try file.write(line(second)) }
            file.close()
        }
        let text = try String(contentsOfFile: path, encoding: .utf8)
        // The last 20 seconds of what was there before, and what this recorder has added.
        #expect(text.hasPrefix(header) && text.contains(line(1069)) && !text.contains(line(1068)), "\(text)")
        #expect(text.hasSuffix("\n" + header + (1090..<1100).map(line).joined()), "\(text)")
        // However long the pause was, and where a recorder was killed within a line.
        try (text + #"{"kind":"turns","ti"#).write(toFile: path, atomically: false, encoding: .utf8)
        var file = try RecordingFile(path: path, header: header, keep: 20_000_000_000)
        try file.write(line(100_000))
        file.close()
        let later = try String(contentsOfFile: path, encoding: .utf8)
        #expect(later.contains(line(1079)) && !later.contains(line(1078)), "\(later)")
        #expect(later.hasSuffix(line(1099) + header + line(100_000)), "\(later)")
    }

    /// What is left of a line may be long, end within a character, or be of the first line.
    @Test func `Each line is an object, also after a recorder that was killed within a line`() throws {
        let path = folder.path("a.recording")
        let header = #"{"kind":"recording","time":1000}"# + "\n"
        let turns = #"{"kind":"turns","time":1001}"# + "\n"
        let message = String(repeating: "ö", count: 100_000)
        let problem = #"{"kind":"problem","message":"\#(message)","time":1002}"# + "\n"
        let whole = Array((header + turns + problem).utf8)
        let early = Array(header.utf8.count - 3..<header.utf8.count + 40)
        for end in early + [whole.count - 70_001, whole.count - 1, whole.count] {
            try Data(whole[..<end]).write(to: URL(fileURLWithPath: path))
            var file = try RecordingFile(path: path, header: header, keep: 20_000_000_000)
            try file.write(turns)
            file.close()
            let text = try String(contentsOfFile: path, encoding: .utf8)
            #expect(text.hasPrefix(header) && text.hasSuffix(header + turns), "cut at \(end)")
            for line in text.dropLast().split(separator: "\n", omittingEmptySubsequences: false) {
                #expect(throws: Never.self, "cut at \(end): \(line.prefix(100))") {
                    try JSONSerialization.jsonObject(with: Data(line.utf8))
                }
            }
        }
    }

    @Test func `Other users cannot read a recording, whatever lies at its path or beside it`() throws {
        let path = folder.path("a.recording")
        let header = #"{"kind":"recording","time":1000}"# + "\n"
        func mode(_ path: String) throws -> Int? {
            try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        }
        // A recording that was made readable, or that another user has prepared.
        try header.write(toFile: path, atomically: false, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: 0o666], ofItemAtPath: path)
        var file = try RecordingFile(path: path, header: header, keep: 0)
        #expect(try mode(path) == 0o600)
        // A link to another file where the second half is written, as in a folder that other users can write.
        let other = folder.path("other")
        try "precious".write(toFile: other, atomically: false, encoding: .utf8)
        try FileManager.default.linkItem(atPath: other, toPath: path + ".new")
        for number in 1...3 { try file.write("\(number)\n") }
        file.close()
        #expect(try String(contentsOfFile: other, encoding: .utf8) == "precious")
        #expect(try String(contentsOfFile: path, encoding: .utf8).hasSuffix("2\n3\n"))
        #expect(try mode(path) == 0o600)
        try FileManager.default.createSymbolicLink(atPath: folder.path("link"), withDestinationPath: path)
        #expect(
            throws: ToolError(
                "\(folder.path("link")): is a symbolic link, and is not followed. Name the file that it leads to."
            )
        ) {
            try RecordingFile(path: folder.path("link"), header: header, keep: 1)
        }
    }

    @Test func `A recording of another database is not continued`() throws {
        let path = folder.path("a.recording")
        func record(_ database: String) throws {
            let header = Recorder(folder.url.appendingPathComponent(database), every: 1, turnsEvery: 1).header
            try RecordingFile(path: path, header: header, keep: 1_000_000_000).close()
        }
        // Longer than what is read to see whether the file is a recording at all.
        let long = Array(repeating: String(repeating: "a", count: 200), count: 4).joined(separator: "/")
        for database in ["a.db", "\(long)/a.db"] {
            try? FileManager.default.removeItem(atPath: path)
            try record(database)
            try record("./\(database)")
            let before = try folder.contents
            #expect(
                throws: ToolError(
                    "\(path): is a recording of another database, \(folder.path(database)), and is not continued with \(folder.path("b.db")). Choose another file, or remove it."
                )
            ) { try record("b.db") }
            #expect(try folder.contents == before)
        }
    }

    @Test func `A recorder of a database that is not there says so, and when it is`() throws {
        let (output, errors) = (Pipe(), Pipe())
        let process = try Tool.start(
            ["record", "a.db", "-o", "a.recording", "--every", "0.1"],
            in: folder.url,
            output: output,
            errors: errors
        )
        defer {
            process.terminate()
            process.waitUntilExit()
        }
        func next() -> String {
            var line = Data()
            while let byte = try? errors.fileHandleForReading.read(upToCount: 1), !byte.isEmpty, byte[0] != 0x0A {
                line += byte
            }
            return String(decoding: line, as: UTF8.self)
        }
        #expect(
            next()
                == "roundtable: waiting until it can be recorded: \(folder.path("a.db")): there is no such file. Check the path."
        )
        let database = try open()
        try database.write { try $0.execute(sql: "CREATE TABLE player(name)") }
        var line = next()
        // It may find the file before the database is in it.
        while line.hasPrefix("roundtable: waiting") { line = next() }
        #expect(line == "roundtable: recording a.db")
    }

    @Test func `A file is continued, keeps its last seconds, and nothing else is overwritten`() throws {
        let path = folder.path("a.recording")
        let header = #"{"every_s":1,"kind":"recording"}"# + "\n"
        var file = try RecordingFile(path: path, header: header, keep: 3_600_000_000_000)
        try file.write("first\n")
        #expect(throws: ToolError.self) { try RecordingFile(path: path, header: header, keep: 1) }
        file.close()
        // Each line is half a file.
        file = try RecordingFile(path: path, header: header, keep: 0)
        #expect(try String(contentsOfFile: path, encoding: .utf8) == header + "first\n" + header)
        for text in ["second\n", "third\n", "fourth\n"] { try file.write(text) }
        file.close()
        #expect(try String(contentsOfFile: path, encoding: .utf8) == header + "third\nfourth\n")
        #expect(try folder.contents.keys.sorted() == ["a.recording"])
        let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        #expect(mode == 0o600)
        try Data("SQLite format 3\0".utf8).write(to: folder.url.appendingPathComponent("a.db"))
        #expect(
            throws: ToolError(
                "\(folder.path("a.db")): is no recording, and is not overwritten. Choose another file, or remove it."
            )
        ) {
            try RecordingFile(path: folder.path("a.db"), header: header, keep: 1)
        }
    }
}
