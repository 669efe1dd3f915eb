import ArgumentParser
import Foundation
import GRDB
import Roundtable
import RoundtableJobs
import RoundtableTestKit

/// Runs many jobs in real processes that are killed and frozen, and checks that each was done once, or is reported as dead.
struct JobsVerb: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "jobs",
        abstract:
            "Runs jobs in processes that are killed and frozen beyond their leases, and finds lost and doubled ones.",
        discussion: "The exit code is 1 if a job was lost, done twice, or is not finished."
    )

    @Option(
        help: "The number of jobs: one half is added at the beginning, the other half by the jobs of the first one."
    )
    var jobs = 50_000
    @Option(help: "The number of processes, with four handlers each.")
    var processes = 8
    @Option(
        help:
            "The largest number of kills; there is a freeze of up to 2 s for each 4 kills. By default, until all is done."
    )
    var kills: Int?
    @Option(help: "The seed of the faults.")
    var seed: Seed?
    @Option(help: "A mistake of the workers that the campaign must find: effects-apart, no-token, forgets.")
    var defect: JobsDefect?

    func validate() throws {
        guard jobs >= 2, jobs.isMultiple(of: 2), processes >= 1, kills ?? 0 >= 0 else {
            throw ValidationError("the number of jobs must be even, and there must be a process")
        }
    }

    func run() async throws {
        let program = Fleet.Program.current.running(["jobs-role"])
        let isClean = try Fleet.run(seed: seed?.value, program: program, test: "jobs") { try campaign($0) }
        if !isClean { throw ExitCode(1) }
    }

    private func campaign(_ fleet: Fleet) throws -> Bool {
        let database = try SharedDatabase.open(
            at: JobsWorld.url(in: fleet.folder),
            schema: JobsWorld.schema,
            as: "campaign"
        )
        defer { try? database.close() }
        var began = ContinuousClock.now
        for start in stride(from: 0, to: jobs / 2, by: 10_000) {
            try database.write { db in
                for number in start..<min(start + 10_000, jobs / 2) { try JobsWorld.add(number, in: db) }
            }
        }
        print("\(jobs / 2) jobs added in \(Self.seconds(since: began)) s; seed 0x\(String(fleet.seed, radix: 16))")
        fflush(nil)

        began = .now
        var arguments = ["jobs": String(jobs)]
        arguments["defect"] = defect?.rawValue
        try fleet.start("worker", count: processes, arguments: arguments)
        var plan = FaultPlan([(.kill, 4), (.stop, 1)], count: kills.map { $0 * 5 / 4 } ?? .max)
        plan.pauses = .milliseconds(10)...(.milliseconds(500))
        // The lease is 0.5 s: most of the freezes outlast it.
        plan.durations = .milliseconds(10)...(.seconds(2))
        let limit = Duration.seconds(600 + jobs / 100)
        try fleet.carryOut(plan, within: limit)
        try fleet.waitForEnd(within: limit)
        let time = ContinuousClock.now - began
        let faults = try fleet.report().faults
        let result = try database.read { try JobsResult(of: jobs, $0) }
        print(
            """
            \(jobs) jobs, \(processes) processes, \(Self.seconds(time)) s: \(Int(Double(jobs) / (time / .seconds(1)))) jobs/s
            \(faults.count { $0.contains(": kill: ") }) kills, \(faults.count { $0.contains(": stop: ") }) freezes
            \(result)
            """
        )
        if !result.problems.isEmpty { print("to run it again: --seed 0x\(String(fleet.seed, radix: 16))") }
        return result.problems.isEmpty
    }

    private static func seconds(since start: ContinuousClock.Instant) -> String { seconds(.now - start) }
    private static func seconds(_ time: Duration) -> String { String(format: "%.1f", time / .seconds(1)) }
}

/// What a campaign has left in the database, found by SQL alone.
struct JobsResult: CustomStringConvertible {
    private(set) var problems: [String] = []
    private(set) var done = 0
    /// Jobs whose handler always fails.
    private(set) var dead = 0
    private(set) var repeats = 0

    /// - parameter count: the number of jobs.
    init(of count: Int, _ db: Database) throws {
        func number(_ sql: String) throws -> Int { try Int.fetchOne(db, sql: sql) ?? 0 }
        func check(_ sql: String, expected: Int = 0, _ problem: String) throws {
            let found = try number(sql)
            if found != expected {
                problems.append("\(problem): \(found)" + (expected == 0 ? "" : ", not \(expected)"))
            }
        }
        let failing = (0..<count).count { JobsWorld.alwaysFails($0, of: count) }
        done = try number("SELECT count(*) FROM roundtable_job WHERE state = 'done'")
        dead = try number("SELECT count(*) FROM roundtable_job WHERE state = 'dead'")
        repeats = try number("SELECT coalesce(sum(attempt), 0) - count(*) FROM roundtable_job")
        try check("SELECT count(*) FROM roundtable_job", expected: count, "jobs in the table")
        try check(
            "SELECT count(DISTINCT json_extract(payload, '$.number')) FROM roundtable_job",
            expected: count,
            "different jobs in the table"
        )
        try check(
            "SELECT count(*) FROM roundtable_job WHERE state NOT IN ('done', 'dead')",
            "unfinished jobs"
        )
        try check(
            "SELECT count(*) FROM roundtable_job WHERE state = 'done' AND id NOT IN (SELECT job FROM effect)",
            "lost: jobs that are done, without an effect"
        )
        try check(
            "SELECT count(*) FROM effect WHERE job NOT IN (SELECT id FROM roundtable_job WHERE state = 'done')",
            "effects of jobs that are not done"
        )
        try check(
            "SELECT count(*) FROM (SELECT number FROM effect GROUP BY number HAVING count(*) > 1)",
            "doubled: jobs with more than one effect"
        )
        // Jobs that died because of kills are reported as well: the campaign has too few attempts then.
        try check("SELECT count(*) FROM roundtable_job WHERE state = 'dead'", expected: failing, "dead jobs")
        try check("SELECT count(*) FROM roundtable_job WHERE state = 'dead' AND error IS NULL", "dead without an error")
        let integrity = try String.fetchAll(db, sql: "PRAGMA integrity_check")
        if integrity != ["ok"] { problems.append("corrupt: \(integrity)") }
    }

    var description: String {
        let figures = "\(done) done, \(dead) dead letters, \(repeats) attempts beyond the first"
        return problems.isEmpty
            ? "\(figures); no job lost or doubled"
            : ([figures] + problems.map { "PROBLEM: \($0)" }).joined(separator: "\n")
    }
}
