import ArgumentParser
import Foundation
import GRDB
import Roundtable
import RoundtableTestKit

/// Runs workloads in real processes that are killed and stopped, and checks every transaction.
struct Check: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Records the transactions of several processes under kills and stops, and checks them for anomalies.",
        discussion:
            "The seed comes from the environment variable ROUNDTABLE_SEED, if it is set. The exit code is 1 if an anomaly was found."
    )

    @Option(help: "The number of transactions of all processes, over all workloads.")
    var transactions = 100_000
    @Option(help: "The number of processes.")
    var processes = 4
    @Option(help: "A workload, repeatable: lists, registers, bank, queue. By default all.")
    var workload: [CheckedWorkload] = []
    @Flag(
        help:
            "Each step, and each read on which a write depends, in a transaction of its own, which is wrong: the check must find it."
    )
    var naive = false

    func run() async throws {
        let kinds = workload.isEmpty ? CheckedWorkload.allCases : workload
        var total = 0
        var isClean = true
        for kind in kinds {
            let share = (transactions + kinds.count * processes - 1) / (kinds.count * processes)
            let began = ContinuousClock.now
            let (report, time) = try Fleet.run(program: Fleet.Program.current.running(["check-role"]), test: "check") {
                fleet in
                let report = try trial(fleet, kind, share)
                return (report, ContinuousClock.now - began)
            }
            total += report.check.transactions
            isClean = isClean && report.isClean
            print("\(kind.rawValue), \(processes) processes, \(Int(time / .seconds(1))) s: \(report)")
            // A run of an hour should say so far what it found, also into a file.
            fflush(nil)
        }
        print("\(total) transactions checked: \(isClean ? "no anomaly" : "ANOMALIES")")
        if !isClean { throw ExitCode(1) }
    }

    private func trial(_ fleet: Fleet, _ kind: CheckedWorkload, _ share: Int) throws -> FleetReport {
        let arguments = ["workload": kind.rawValue, "transactions": String(share)]
        try fleet.start(naive ? "naive-writer" : "writer", count: processes, arguments: arguments)
        var plan = FaultPlan([(.kill, 1), (.stop, 1)], count: .max)
        // More often, most of the time would go to the start of new processes.
        plan.pauses = .milliseconds(5)...(.milliseconds(500))
        // Slow machines run some hundred transactions a second.
        try fleet.carryOut(plan, within: .seconds(300 + share * processes / 100))
        try fleet.waitForEnd()
        let database = try SharedDatabase.open(
            at: CheckedWorkload.url(in: fleet.folder),
            schema: kind.schema,
            as: "checker"
        )
        try fleet.finish(kind.workload, in: database)
        let findings = try database.read { try Invariants.integrity(of: $0) }
        try database.close()
        return try fleet.report(findings: findings)
    }
}
