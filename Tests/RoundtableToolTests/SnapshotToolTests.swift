import Foundation
import RoundtableTestSupport
import Testing

@testable import Roundtable
@testable import RoundtableReplication
@testable import RoundtableTool
@testable import RoundtableToolSupport

@Suite(.timeLimit(.minutes(2))) struct SnapshotToolTests {
    private struct State: Codable, Sendable {
        var openTasks = 5
        var nextTask = "Buy milk"
    }

    private func file(_ folder: Folder, _ encoding: SnapshotEncoding<State> = .json) -> SnapshotFile<State> {
        SnapshotFile(at: URL(fileURLWithPath: folder.path("a.snapshot")), version: 3, as: "app", encoding: encoding)
    }

    @Test func `A value is shown with its writer`() throws {
        let folder = try Folder()
        try file(folder).write(State())
        let before = try folder.contents
        let result = try Tool.run("snapshot", "a.snapshot", in: folder)
        #expect(result.code == 0 && result.errors == "")
        for text in ["a whole value", "version   3", "sequence  1", "writer    app", "JSON", #""openTasks" : 5"#] {
            #expect(result.output.contains(text), "\(text) in \(result.output)")
        }
        let value = try Tool.run("snapshot", "a.snapshot", "--value", in: folder)
        #expect(value.json?["nextTask"] as? String == "Buy milk")
        let json = try #require(try Tool.run("snapshot", "a.snapshot", "--json", in: folder).json)
        #expect(json["outcome"] as? String == "value" && json["encoding"] as? String == "json")
        #expect((json["value"] as? [String: Any])?["openTasks"] as? Int == 5)
        #expect(json["version"] as? Int == 3 && json["problem"] == nil)
        #expect(try folder.contents == before)
    }

    @Test func `Other encodings`() throws {
        let folder = try Folder()
        try file(folder, .propertyList).write(State())
        #expect(try Tool.run("snapshot", "a.snapshot", in: folder).output.contains("<key>nextTask</key>"))
        let json = try #require(try Tool.run("snapshot", "a.snapshot", "--json", in: folder).json)
        #expect((json["value"] as? [String: Any])?["nextTask"] as? String == "Buy milk")
        let own = SnapshotEncoding<State>.custom(
            encode: { _ in Data([0xFF, 0x1B]) },
            decode: { _, _ in State() }
        )
        try file(folder, own).write(State())
        let result = try Tool.run("snapshot", "a.snapshot", in: folder)
        #expect(result.code == 0 && result.output.contains("(2 bytes that are no text)"))
        let other = try #require(try Tool.run("snapshot", "a.snapshot", "--json", in: folder).json)
        #expect((other["value"] as? [String: Any])?["base64"] as? String == "/xs=")
    }

    @Test func `What is no value is said, with its reason and exit code`() throws {
        let folder = try Folder()
        for arguments in [[], ["--value"]] {
            let none = try Tool.run(["snapshot", "a.snapshot"] + arguments, in: folder)
            #expect(none.code == 1 && none.output == "")
            let next = "Start the program that publishes it, or check the path.\n"
            #expect(none.errors.hasSuffix("a.snapshot: there is no such file. \(next)"))
            #expect(none.errors.components(separatedBy: "a.snapshot").count == 2, "\(none.errors)")
        }
        let json = try Tool.run("snapshot", "a.snapshot", "--json", in: folder)
        #expect(json.code == 1 && json.json?["outcome"] as? String == "none" && json.json?["next"] is String)
        try file(folder).write(State())
        let url = URL(fileURLWithPath: folder.path("a.snapshot"))
        var bytes = [UInt8](try Data(contentsOf: url))
        bytes[130] ^= 1
        try Data(bytes).write(to: url)
        let damaged = try Tool.run("snapshot", "a.snapshot", in: folder)
        #expect(damaged.code == 2)
        #expect(damaged.output.contains("damaged: its value has changed") && damaged.output.contains("writer    app"))
        #expect(damaged.output.contains("next      The next write replaces it"))
        let value = try Tool.run("snapshot", "a.snapshot", "--value", in: folder)
        #expect(
            value.code == 2 && value.output == "" && value.errors.contains("has changed since it was written. The next")
        )
        try Data("SQLite format 3\0".utf8).write(to: url)
        let foreign = try Tool.run("snapshot", "a.snapshot", "--json", in: folder)
        #expect(foreign.code == 1 && foreign.json?["outcome"] as? String == "foreign")
        #expect(foreign.json?["version"] == nil && (foreign.json?["next"] as? String)?.contains("the path") == true)
        let isFolder = try Tool.run("snapshot", ".", in: folder)
        #expect(isFolder.code == 1 && isFolder.errors.contains("it is a folder"))
        #expect(isFolder.errors.components(separatedBy: folder.url.lastPathComponent).count == 2, "\(isFolder.errors)")
        #expect(try Tool.run("snapshot", "a.snapshot", "--count", "1", in: folder).code == 64)
        #expect(try Tool.run("snapshot", "a.snapshot", "--json", "--value", in: folder).code == 64)
    }

    /// Text of other programs does not move the cursor.
    @Test func `Control characters are not printed`() throws {
        let folder = try Folder()
        let url = URL(fileURLWithPath: folder.path("a.snapshot"))
        try SnapshotFile<String>(at: url, as: "\u{1B}[2J").write("x")
        let result = try Tool.run("snapshot", "a.snapshot", in: folder)
        #expect(result.code == 0 && !result.output.contains("\u{1B}"))
    }

    @Test func `It is watched`() throws {
        let folder = try Folder()
        let output = Pipe()
        let arguments = ["snapshot", "a.snapshot", "--watch", "--json", "--count", "3"]
        let process = try Tool.start(arguments, in: folder.url, output: output, errors: Pipe())
        defer { if process.isRunning { process.terminate() } }
        var text = ""
        func waitForLines(_ count: Int) throws {
            while text.filter(\.isNewline).count < count {
                let data = output.fileHandleForReading.availableData
                try #require(!data.isEmpty, "ended: \(text)")
                text += String(decoding: data, as: UTF8.self)
            }
        }
        try waitForLines(1)
        for number in 1...2 {
            try file(folder).write(State(openTasks: number))
            try waitForLines(number + 1)
        }
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
        #expect(text.contains(#""openTasks":2"#) && text.contains(#""outcome":"none""#))
    }

    /// No signal is lost, however soon after the first output it comes.
    @Test(arguments: [SIGTERM, SIGINT, SIGHUP]) func `A signal ends watching`(signal: Int32) throws {
        let folder = try Folder()
        for _ in 0..<10 {
            let output = Pipe()
            let process = try Tool.start(["snapshot", "a", "--watch"], in: folder.url, output: output, errors: Pipe())
            defer { if process.isRunning { kill(process.processIdentifier, SIGKILL) } }
            _ = output.fileHandleForReading.availableData
            kill(process.processIdentifier, signal)
            do {
                try RoundtableTestKit.eventually("it has ended", within: .seconds(30)) { !process.isRunning }
            } catch {
                Issue.record("\(error): its threads are \(Tool.threads(of: process.processIdentifier))")
                return
            }
            #expect(process.terminationReason == .exit && process.terminationStatus == 128 + signal)
        }
    }
}
