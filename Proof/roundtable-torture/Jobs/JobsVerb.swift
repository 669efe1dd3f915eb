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
    @Option(help: "The number of processes.")
    var processes = 8
    @Option(help: "The number of handlers of each process.")
    var handlers = 4
    @Option(
        help:
            "The largest number of kills; there is a freeze of up to 2 s for each 4 kills. By default, until all is done."
    )
    var kills: Int?
    @Option(
        help: ArgumentHelp(
            "The longest time of a handler. Jobs then arrive one by one while the workers run, and each has to begin soon.",
            valueName: "ms"
        )
    )
    var longest: Int?
    @Option(help: "The seed of the faults.")
    var seed: Seed?
    @Option(help: "A mistake of the workers that the campaign must find: effects-apart, no-token, forgets.")
    var defect: JobsDefect?

    func validate() throws {
        guard jobs >= 2, jobs.isMultiple(of: 2), processes >= 1, handlers >= 1, kills ?? 0 >= 0, longest ?? 1 >= 1
        else {
            throw ValidationError(
                "the number of jobs must be even, there must be a process with a handler, which takes 1 ms at least"
            )
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
        let jobsPlan = JobsPlan(count: jobs, longest: longest, handlers: handlers, defect: defect)
        print("seed 0x\(String(fleet.seed, radix: 16))")
        if longest == nil { try addFirstHalf(database) }
        fflush(nil)

        let began = ContinuousClock.now
        if longest != nil { try fleet.start("source", arguments: jobsPlan.arguments) }
        try fleet.start("worker", count: processes, arguments: jobsPlan.arguments)
        var plan = FaultPlan([(.kill, 4), (.stop, 1)], count: kills.map { $0 * 5 / 4 } ?? .max)
        plan.pauses = longest == nil ? .milliseconds(10)...(.milliseconds(500)) : .milliseconds(100)...(.seconds(4))
        // Without `longest`, the lease is 0.5 s: most of the freezes outlast it.
        plan.durations = .milliseconds(10)...(.seconds(2))
        let limit = Duration.seconds(600 + jobs / 100)
        try fleet.carryOut(plan, within: limit)
        try fleet.waitForEnd(within: limit)
        let time = ContinuousClock.now - began
        let faults = try fleet.report().faults
        let result = try database.read { try JobsResult(of: jobsPlan, $0) }
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

    private func addFirstHalf(_ database: SharedDatabase) throws {
        let began = ContinuousClock.now
        for start in stride(from: 0, to: jobs / 2, by: 10_000) {
            try database.write { [jobs] db in
                for number in start..<min(start + 10_000, jobs / 2) { try JobsWorld.add(number, longest: nil, in: db) }
            }
        }
        print("\(jobs / 2) jobs added in \(Self.seconds(since: began)) s")
    }

    private static func seconds(since start: ContinuousClock.Instant) -> String { seconds(.now - start) }
    private static func seconds(_ time: Duration) -> String { String(format: "%.1f", time / .seconds(1)) }
}
