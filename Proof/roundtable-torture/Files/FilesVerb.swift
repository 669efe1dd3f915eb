import ArgumentParser
import Foundation
import Roundtable
import RoundtableKernel
import RoundtableTestKit

/// Replaces, removes, moves and recreates the files of a database under writers, observers, the owner of an outbox and a worker, and checks
/// that all of them notice (rules W12).
struct FilesVerb: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "files",
        abstract: "Replaces, removes and moves the files of open databases, and finds processes that do not notice.",
        discussion: "The exit code is 1 if a write was acknowledged too late, or a process was not notified."
    )

    @Option(help: "The number of rounds.")
    var rounds = 20
    @Option(help: "The seed of the damages and of their moments.")
    var seed: Seed?

    func run() async throws {
        let seed = seed?.value ?? UInt64.random(in: 0 ... .max)
        print("seed 0x\(String(seed, radix: 16))")
        var random = SeededGenerator(seed: seed)
        var counts: [String: Int] = [:]
        var problems: [String] = []
        var latest: Nanoseconds = 0
        for round in 0..<rounds {
            let damage = FileDamage.allCases.randomElement(using: &random)!
            let pause = Duration.milliseconds(Int.random(in: 0...150, using: &random))
            let result = try await Self.round(damage, after: pause, seed: seed)
            guard let result else {
                counts["\(damage.rawValue) (not possible here)", default: 0] += 1
                continue
            }
            counts[damage.rawValue, default: 0] += 1
            latest = max(latest, result.latest)
            problems += result.problems.map { "round \(round), \(damage.rawValue): \($0)" }
        }
        print(
            "\(rounds) rounds: "
                + counts.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }.joined(separator: ", ")
        )
        print("the latest was notified after \(latest / 1_000_000) ms; \(problems.count) problems")
        for problem in problems { print(problem) }
        if !problems.isEmpty {
            print("to run it again: --seed 0x\(String(seed, radix: 16)) --rounds \(rounds)")
            throw ExitCode(1)
        }
    }

    private struct Result {
        var problems: [String] = []
        /// How long it took until the last process was notified.
        var latest: Nanoseconds = 0
    }

    /// - returns: nil when the damage is not possible here.
    private static func round(_ damage: FileDamage, after pause: Duration, seed: UInt64) async throws -> Result? {
        let program = Fleet.Program.current.running(["files-role"])
        return try Fleet.run(seed: seed, program: program, test: "files") { fleet -> Result? in
            let url = FilesRole.url(fleet.folder)
            let folder = url.deletingLastPathComponent()
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            defer { damage.clearUp(url.path) }
            defer { FilesRole.touch(FilesRole.file(fleet.folder, "end")) }
            for (role, count) in FilesRole.roles { try fleet.start(role, count: count) }
            let count = FilesRole.roles.reduce(0) { $0 + $1.1 }
            func files(_ prefix: String) -> [URL] {
                let all =
                    (try? FileManager.default.contentsOfDirectory(at: fleet.folder, includingPropertiesForKeys: nil))
                    ?? []
                return all.filter { $0.lastPathComponent.hasPrefix(prefix) }
            }
            var result = Result()
            guard wait(for: .seconds(60), { files("ready-").count == count }) else {
                result.problems.append("only \(files("ready-").count) processes have opened the database")
                return result
            }
            Thread.sleep(forTimeInterval: pause / .seconds(1))
            let before = try DatabaseStatus(ofDatabaseAt: url)
            if before.participants.contains(where: \.isOfOtherFile) {
                result.problems.append("status sees a loss before there is one")
            }
            let began = MonotonicClock.now
            guard try damage.make(url.path) else {
                try end(fleet)
                return nil
            }
            let made = MonotonicClock.now
            if !wait(for: .seconds(20), { files("report-").count == count }) {
                result.problems.append("\(count - files("report-").count) processes were not notified within 20 s")
            }
            for file in files("report-") {
                let report = try JSONDecoder().decode(LossReport.self, from: Data(contentsOf: file))
                if !report.isLoss {
                    result.problems.append(
                        "\(report.role): \(report.error.isEmpty ? "ended without an error" : report.error)"
                    )
                }
                if report.lastBegan > made + DatabaseFiles.validity {
                    result.problems.append(
                        "\(report.role): a write that began \((report.lastBegan - made) / 1_000) µs after the loss was acknowledged"
                    )
                }
                result.latest = max(result.latest, report.notified.subtractingSaturating(began))
            }
            result.problems += try look(url, damage, count)
            try end(fleet)
            return result
        }
    }

    /// What `status` and `doctor` say while the processes still have their files open.
    private static func look(_ url: URL, _ damage: FileDamage, _ count: Int) throws -> [String] {
        var problems: [String] = []
        if damage == .mountedOver {
            // A file that is mounted by itself is not looked into.
            let topics = try DatabaseDiagnosis(ofDatabaseAt: url).findings.map(\.topic)
            return topics == [.singleFileMount] ? [] : ["doctor finds \(topics)"]
        }
        if !damage.leavesNothing {
            let lost = try DatabaseStatus(ofDatabaseAt: url).participants.count(where: \.isOfOtherFile)
            if lost != count { problems.append("status shows \(lost) of \(count) participants with another file") }
        }
        let findings = try DatabaseDiagnosis(ofDatabaseAt: url).findings.filter { $0.topic == .lostFile }
        if findings.count != count {
            problems.append("doctor finds \(findings.count) of \(count) participants with another file")
        }
        return problems
    }

    private static func end(_ fleet: Fleet) throws {
        FilesRole.touch(FilesRole.file(fleet.folder, "end"))
        try fleet.waitForEnd(within: .seconds(60))
    }

    private static func wait(for time: Duration, _ condition: () -> Bool) -> Bool {
        let deadline = ContinuousClock.now + time
        while !condition() {
            if ContinuousClock.now >= deadline { return false }
            Thread.sleep(forTimeInterval: 0.002)
        }
        return true
    }
}
