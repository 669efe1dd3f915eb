import Foundation
import GRDB
import Roundtable
import Testing

@testable import RoundtableTool

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
        var recorder = Recorder(folder.url.appendingPathComponent("a.db"), every: 0.1, turnsEvery: 0.01)
        #expect(
            try line("problem", &recorder)["message"] as? String
                == "\(folder.path("a.db")): there is no such file. Check the path."
        )
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
        // The first look at the turns has nothing to compare them with. The second one tells that nobody writes, once.
        #expect((try line("turns", &recorder)["participants"] as? [Any])?.isEmpty == true)
        for number in 1...3 { try database.write { try $0.execute(sql: "INSERT INTO player VALUES (\(number))") } }
        let participants = try #require(try line("turns", &recorder)["participants"] as? [[String: Any]])
        #expect(participants.count == 1)
        #expect(participants.first?["author"] as? String == "app")
        #expect(participants.first?["turns"] as? Int == 3)
        #expect(participants.first?["waiting_s"] == nil)
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
        #expect(try String(contentsOfFile: path, encoding: .utf8) == header + "first\n\n" + header)
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
