import ArgumentParser
import Foundation
import GRDB
import Roundtable
import RoundtableKernel
import RoundtableTestKit

/// Replaces, removes, moves and recreates the files of a database under writers, observers, the owner of an outbox and a worker, and checks
/// that all of them notice (rules W12). After a quarantine and an erasure, all of them go on with the next database (rule S16).
struct FilesVerb: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "files",
        abstract: "Replaces, removes and moves the files of open databases, and finds processes that do not notice.",
        discussion: "The exit code is 1 if a write was acknowledged too late, or a process was not notified."
    )

    @Option(help: "The number of rounds.")
    var rounds = 20
    @Option(help: ArgumentHelp("What happens in all rounds; at random if not given.", valueName: "damage"))
    var only: String?
    @Option(help: "The seed of the damages and of their moments.")
    var seed: Seed?

    func validate() throws {
        if let only, FileDamage(rawValue: only) == nil {
            throw ValidationError(
                "--only takes one of: \(FileDamage.allCases.map(\.rawValue).joined(separator: ", "))."
            )
        }
    }

    func run() async throws {
        let seed = seed?.value ?? UInt64.random(in: 0 ... .max)
        print("seed 0x\(String(seed, radix: 16))")
        var random = SeededGenerator(seed: seed)
        var counts: [String: Int] = [:]
        var problems: [String] = []
        var latest: Nanoseconds = 0
        var latestUse: Nanoseconds = 0
        for round in 0..<rounds {
            let damage = only.flatMap(FileDamage.init) ?? FileDamage.allCases.randomElement(using: &random)!
            let pause = Duration.milliseconds(Int.random(in: 0...150, using: &random))
            let result = try await Self.round(damage, after: pause, seed: seed)
            guard let result else {
                counts["\(damage.rawValue) (not possible here)", default: 0] += 1
                continue
            }
            counts[damage.rawValue, default: 0] += 1
            latest = max(latest, result.latest)
            latestUse = max(latestUse, result.latestUse)
            problems += result.problems.map { "round \(round), \(damage.rawValue): \($0)" }
        }
        print(
            "\(rounds) rounds: "
                + counts.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }.joined(separator: ", ")
        )
        print("the latest was notified after \(latest / 1_000_000) ms; \(problems.count) problems")
        if latestUse > 0 { print("the latest has used the next database after \(latestUse / 1_000_000) ms") }
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
        /// How long it took until the last process had written the next database.
        var latestUse: Nanoseconds = 0
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
            if damage.isFollowed { FilesRole.touch(FilesRole.file(fleet.folder, "follow")) }
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
            let aside = try Self.aside(url)
            let contents = aside.map(AsideFiles.init)
            if !wait(for: .seconds(20), { files("report-").count == count }) {
                result.problems.append("\(count - files("report-").count) processes were not notified within 20 s")
            }
            var acknowledged: [Int32: Int] = [:]
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
                if report.acknowledged > 0 { acknowledged[report.pid] = report.acknowledged }
            }
            if damage.isFollowed {
                if !wait(for: .seconds(20), { files("next-").count == count }) {
                    result.problems.append(
                        "\(count - files("next-").count) processes have not used the next database within 20 s"
                    )
                }
                for file in files("next-") {
                    let use = try JSONDecoder().decode(NextUse.self, from: Data(contentsOf: file))
                    if !use.error.isEmpty { result.problems.append("the next database: \(use.error)") }
                    result.latestUse = max(result.latestUse, use.time.subtractingSaturating(made))
                }
                result.problems += try Self.check(url, aside, contents, acknowledged, count)
            }
            result.problems += try look(url, damage, count)
            try end(fleet)
            return result
        }
    }

    /// The database that was put aside.
    private static func aside(_ url: URL) throws -> URL? {
        let (folder, name) = (url.deletingLastPathComponent(), url.lastPathComponent)
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
        return names.first { $0.hasPrefix("\(name)-quarantined-") }.map {
            folder.appendingPathComponent("\($0)/\(name)")
        }
    }

    /// What changes when somebody writes a database.
    private struct AsideFiles: Equatable {
        var files: [String]

        init(_ url: URL) {
            files = ["", "-wal"].map { suffix in
                let attributes = try? FileManager.default.attributesOfItem(atPath: url.path + suffix)
                return "\(attributes?[.size] ?? "none") \(attributes?[.modificationDate] ?? "")"
            }
        }
    }

    /// What is in the two databases.
    private static func check(
        _ url: URL,
        _ aside: URL?,
        _ before: AsideFiles?,
        _ acknowledged: [Int32: Int],
        _ count: Int
    ) throws -> [String] {
        var problems: [String] = []
        let next = try DatabaseQueue(path: url.path).read { try Int.fetchAll($0, sql: "SELECT number FROM entry") }
        if next != Array(repeating: -1, count: count) { problems.append("the next database has the entries \(next)") }
        guard let aside else { return problems }
        if before != AsideFiles(aside) { problems.append("what was put aside was written afterwards") }
        try DatabaseQueue(path: aside.path).read { db in
            let check = try String.fetchOne(db, sql: "PRAGMA integrity_check")
            if check != "ok" { problems.append("what was put aside is damaged: \(check ?? "")") }
            for (pid, number) in acknowledged {
                let found = try Int.fetchOne(db, sql: "SELECT count(*) FROM entry WHERE pid = ?", arguments: [pid]) ?? 0
                // The last one may have failed after its commit.
                if found != number, found != number + 1 {
                    problems.append(
                        "\(number) writes of \(pid) were acknowledged, and \(found) are in what was put aside"
                    )
                }
            }
        }
        return problems
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
