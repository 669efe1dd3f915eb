import Foundation
import RoundtableTestBasics
import RoundtableTestSupport
import Testing

@testable import RoundtableReplication
@testable import RoundtableTool
@testable import RoundtableToolSupport

@Suite(.serialized, .timeLimit(.minutes(2))) struct DemoTests {
    @Test func `Five processes share one database, and everything adds up`() throws {
        let folder = try Folder()
        let result = try Tool.run("demo", "--json", "--seconds", "1", "--at", "demo.sqlite", in: folder)
        #expect(result.code == 0, "\(result.errors)")
        let report = try JSONDecoder().decode(DemoReport.self, from: Data(result.output.utf8))
        #expect(report.problems == [])
        #expect(report.errors == 0)
        #expect(report.integrity == "ok")
        #expect(report.rowsExpected == report.rowsFound)
        #expect(
            report.participants.map(\.name) == [
                "app", "sync daemon", "share extension", "widget", "interactive widget",
            ]
        )
        let (writers, readers) = (report.participants.prefix(3), report.participants[3..<4])
        #expect(writers.allSatisfy { $0.commits > 0 && $0.role == .readWrite && $0.reads == nil })
        #expect(readers.allSatisfy { $0.commits == 0 && $0.role == .readOnly && $0.reads ?? 0 > 0 })
        #expect(report.rowsFound == writers.reduce(0) { $0 + $1.commits })
        let seen = try #require(readers.first?.seen)
        #expect(seen.lastEntry == report.lastEntry && Int(report.lastEntry) == report.rowsFound)
        #expect(seen.values > 0 && seen.changes > 0 && seen.p50 > 0)
        let commands = try #require(report.commands)
        #expect(commands.submitted > 0 && commands.submitted == commands.applied && commands.isInOrder)
        #expect((1...commands.submitted + 1).contains(commands.snapshots))
        #expect(commands.p50 > 0 && commands.p50 <= commands.p99)
        // That turns are taken at all is what must show here. Other programs may be using the machine: then once more.
        var jain = report.jain
        for number in 1...5 where jain <= 0.9 {
            let again = try Tool.run("demo", "--json", "--seconds", "1", "--at", "again-\(number).sqlite", in: folder)
            jain = try JSONDecoder().decode(DemoReport.self, from: Data(again.output.utf8)).jain
        }
        #expect(jain > 0.9)

        let count = try Tool.run("sql", "--json", "demo.sqlite", "SELECT COUNT(*) AS n FROM entry", in: folder)
        #expect(count.output == "{\"n\":\(report.rowsFound)}\n")
        let snapshot = try Tool.run("snapshot", "demo.sqlite-widget", in: folder)
        #expect(snapshot.code == 0 && snapshot.output.contains("\(commands.submitted)"))
        // Nothing waits, and the widget is no participant.
        let outbox = try Tool.run("outbox", "--json", "demo.sqlite", in: folder)
        #expect(outbox.output.isEmpty)
        let status = try Tool.run("status", "--json", "demo.sqlite", in: folder)
        #expect(!Self.participants(status).contains { $0["author"] as? String == "interactive widget" })
    }

    @Test func `What it says to run next can be copied and run`() throws {
        let folder = try Folder()
        let demo = try Tool.run("demo", "--seconds", "0.2", "--at", "my demo.sqlite", in: folder)
        #expect(demo.code == 0, "\(demo.errors)")
        let lines = demo.output.split(separator: "\n").suffix(4)
        #expect(lines.count == 4 && lines.allSatisfy { $0.contains("my demo.sqlite") }, "\(demo.output)")
        for line in lines {
            let shell = URL(fileURLWithPath: "/bin/sh")
            // The live view shows the database until it is ended.
            let end = line.contains(" top ") ? " --once" : ""
            let result = try Tool.run(["-c", line + end], in: folder, program: shell)
            #expect(result.code == 0 && !result.output.isEmpty, "\(line): \(result.errors)")
        }
    }

    @Test func `The database of an earlier demo is used again, any other is refused`() throws {
        let folder = try Folder()
        for _ in 0..<2 {
            let result = try Tool.run(
                ["demo", "--json", "--seconds", "0.2", "--processes", "2", "--at", "demo.sqlite"],
                in: folder
            )
            #expect(result.code == 0, "\(result.errors)")
        }
        try Tool.run("sql", "other.sqlite", "CREATE TABLE t(x)", in: folder)
        let before = try folder.contents
        let result = try Tool.run("demo", "--at", "other.sqlite", in: folder)
        #expect(result.code == 1)
        #expect(result.errors.contains("other.sqlite: this is a database, and not the demo's"))
        #expect(try folder.contents == before)
    }

    /// Also by SIGTERM, which the threads of the program that spawns it block.
    @Test(.long(), arguments: [SIGKILL, SIGTERM])
    func `A process that is killed makes the demo fail, and say which one it was`(signal: Int32) async throws {
        let folder = try Folder()
        let (output, errors) = (Pipe(), Pipe())
        let process = try Tool.start(
            ["demo", "--json", "--seconds", "3", "--at", "demo.sqlite"],
            in: folder.url,
            output: output,
            errors: errors
        )
        defer { process.terminate() }
        let victim = try await participant("sync daemon", in: folder)
        #expect(kill(victim, signal) == 0)
        let text = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        #expect(process.terminationStatus == 1)
        let report = try JSONDecoder().decode(DemoReport.self, from: text)
        #expect(report.errors == 1)
        #expect(report.problems == ["'sync daemon' (pid \(victim)): was killed by signal \(signal)"])
        #expect(report.integrity == "ok")
        #expect(report.rowsFound >= report.rowsExpected)
    }

    /// Its commands are not lost: they wait for the next demo.
    @Test(.long()) func `An app that is killed leaves commands, which the next demo applies`() async throws {
        let folder = try Folder()
        let (output, errors) = (Pipe(), Pipe())
        let process = try Tool.start(
            ["demo", "--json", "--seconds", "2", "--at", "demo.sqlite"],
            in: folder.url,
            output: output,
            errors: errors
        )
        defer { process.terminate() }
        let victim = try await participant("app", in: folder)
        #expect(kill(victim, SIGKILL) == 0)
        let text = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        #expect(process.terminationStatus == 1)
        let report = try JSONDecoder().decode(DemoReport.self, from: text)
        #expect(report.problems.contains("'app' (pid \(victim)): was killed by signal 9"))
        let commands = try #require(report.commands)
        #expect(commands.applied < commands.submitted && commands.isInOrder)
        let waiting = try Tool.run("outbox", "--json", "demo.sqlite", in: folder).output.split(separator: "\n")
        // And those that were applied in the moment of the kill, whose files were not removed yet.
        #expect(waiting.count >= commands.submitted - commands.applied)

        // What is waited for is said, and what to run can be copied as it is.
        let list = try Tool.run("outbox", "demo.sqlite", in: folder).output
        #expect(list.contains("no process runs that applies commands"), "\(list)")

        let next = try Tool.run("demo", "--json", "--seconds", "0.3", "--at", "demo.sqlite", in: folder)
        #expect(next.code == 0, "\(next.errors)")
        let logged = try Tool.run("sql", "--json", "demo.sqlite", "SELECT COUNT(*) AS n FROM logged", in: folder)
        let own = try JSONDecoder().decode(DemoReport.self, from: Data(next.output.utf8)).commands?.submitted ?? 0
        #expect(logged.output == "{\"n\":\(commands.submitted + own)}\n")
    }

    @Test(arguments: [SIGINT, SIGTERM])
    func `A signal ends the demo, its processes and its folder`(signal: Int32) async throws {
        let folder = try Folder()
        let process = try Tool.start(
            ["demo", "--json", "--seconds", "60"],
            in: folder.url,
            output: Pipe(),
            errors: Pipe()
        )
        let database = "roundtable-demo-\(process.processIdentifier)/demo.sqlite"
        let child = try await participant("app", in: folder, database)
        #expect(kill(process.processIdentifier, signal) == 0)
        process.waitUntilExit()
        #expect(process.terminationStatus == 128 + signal)
        #expect(!Self.isRunning(child), "the process of the app is still there")
        #expect(try folder.contents == [:])
    }

    /// From before it handles signals until after it has ended.
    @Test(.long()) func `A signal at any moment leaves neither a process nor a folder`() throws {
        let folder = try Folder()
        var random = SeededGenerator(for: "a signal at any moment")
        var exits: [Int32: Int] = [:]
        for _ in 0..<12 {
            let (output, errors) = (Pipe(), Pipe())
            let process = try Tool.start(["demo", "--seconds", "0.3"], in: folder.url, output: output, errors: errors)
            let group = process.processIdentifier
            usleep(.random(in: 0...1_200_000, using: &random))
            kill(group, [SIGINT, SIGTERM, SIGHUP].randomElement(using: &random)!)
            let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
            process.waitUntilExit()
            exits[process.terminationStatus, default: 0] += 1
            // Its process group is its own, and its processes are in it.
            #expect(kill(-group, 0) == -1 && errno == ESRCH, "a process is left")
            #expect(try folder.contents == [:])
            let isCutShort = !text.contains("integrity_check")
            #expect(isCutShort == (process.terminationStatus != 0), "\(process.terminationStatus): \(text)")
        }
        print("a signal at any moment: \(exits)")
    }

    @Test func `When no program reads its output any more, the demo ends, its processes and its folder too`() throws {
        let folder = try Folder()
        let output = Pipe()
        let process = try Tool.start(["demo", "--seconds", "60"], in: folder.url, output: output, errors: Pipe())
        _ = output.fileHandleForReading.availableData
        try output.fileHandleForReading.close()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
        #expect(kill(-process.processIdentifier, 0) == -1, "a process is left")
        #expect(try folder.contents == [:])
    }

    /// Ctrl-Z stops all of them, `fg` continues all; other processes can write meanwhile.
    @Test func `Ctrl-Z stops the demo and its processes, and no other process is locked out`() async throws {
        let folder = try Folder()
        let output = Pipe()
        let process = try Tool.start(
            ["demo", "--json", "--seconds", "2", "--at", "demo.sqlite"],
            in: folder.url,
            output: output,
            errors: Pipe()
        )
        let group = process.processIdentifier
        defer { kill(-group, SIGKILL) }
        _ = try await participant("app", in: folder)
        #expect(kill(-group, SIGTSTP) == 0)
        try await eventually("all are stopped, with their gates closed") {
            let members = Self.participants(try Tool.run("status", "--json", "demo.sqlite", in: folder))
            return members.count == 4
                && members.allSatisfy {
                    $0["liveness"] as? String == "stopped" && $0["state"] as? String == "suspended"
                }
        }
        let write = "INSERT INTO logged (run, number) VALUES ('somebody else', 1)"
        #expect(try Tool.run("sql", "demo.sqlite", "--timeout", "2", write, in: folder).code == 0)
        #expect(kill(-group, SIGCONT) == 0)
        let text = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
        #expect(try JSONDecoder().decode(DemoReport.self, from: text).problems == [])
    }

    @Test func `When the demo is killed, its processes end by themselves`() async throws {
        let folder = try Folder()
        let process = try Tool.start(
            ["demo", "--json", "--seconds", "60", "--at", "demo.sqlite"],
            in: folder.url,
            output: Pipe(),
            errors: Pipe()
        )
        let child = try await participant("app", in: folder)
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
        try await eventually("the processes of the demo end") {
            let status = try Tool.run("status", "--json", "demo.sqlite", in: folder)
            let pids = Self.participants(status).filter { $0["liveness"] as? String != "dead" }
            return pids.isEmpty && !Self.isRunning(child)
        }
    }

    // MARK: Support

    private static func isRunning(_ pid: Int32) -> Bool { kill(pid, 0) == 0 }

    private static func participants(_ status: Tool.Result) -> [[String: Any]] {
        status.json?["participants"] as? [[String: Any]] ?? []
    }

    /// The pid of a participant of the demo that has begun to write.
    private func participant(
        _ name: String,
        in folder: Folder,
        _ database: String = "demo.sqlite"
    ) async throws -> Int32 {
        var pid: Int32?
        try await eventually("'\(name)' writes") {
            let status = try Tool.run("status", "--json", database, in: folder)
            let member = Self.participants(status).first { $0["author"] as? String == name }
            guard let member, member["turns_taken"] as? Int ?? 0 > 0 else { return false }
            pid = (member["pid"] as? Int).map(Int32.init)
            return pid != nil
        }
        return try #require(pid)
    }
}
