import ArgumentParser
import Foundation
import GRDB
import Roundtable
import RoundtableTestKit

/// Processes that want the same role, and are killed, frozen and suspended while they have it.
struct RolesVerb: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "roles",
        abstract:
            "Hands a role over between processes that are killed, frozen and suspended, and finds two holders that wrote.",
        discussion: "The exit code is 1 if the writes of two terms overlap, or the role was free for too long."
    )

    @Option(help: "The number of processes.")
    var processes = 8
    @Option(help: "How many terms there are in all.")
    var terms = 1_000
    @Option(help: "The longest time of the campaign in seconds.")
    var seconds = 600
    @Option(help: "The seed of the faults.")
    var seed: Seed?
    @Option(help: "A mistake of the workers that the campaign must find: no-check.")
    var defect: RolesDefect?

    func run() async throws {
        let program = Fleet.Program.current.running(["roles-worker"])
        let isClean = try Fleet.run(seed: seed?.value, program: program, test: "roles") { try campaign($0) }
        if !isClean { throw ExitCode(1) }
    }

    private func campaign(_ fleet: Fleet) throws -> Bool {
        let database = try RolesWorld.open(in: fleet.folder, as: "campaign")
        defer { try? database.close() }
        print("seed 0x\(String(fleet.seed, radix: 16))")
        fflush(nil)
        let began = ContinuousClock.now
        var arguments = ["terms": String(terms)]
        arguments["defect"] = defect?.rawValue
        try fleet.start("worker", count: processes, arguments: arguments)
        var plan = FaultPlan([(.kill, 4), (.stop, 3), (.suspend, 3)], count: .max)
        plan.pauses = .milliseconds(20)...(.milliseconds(400))
        // Some freezes are shorter than the patience, and most are longer.
        plan.durations = .milliseconds(10)...(.milliseconds(1_500))
        try fleet.carryOut(plan, within: .seconds(seconds))
        try fleet.waitForEnd(within: .seconds(60))
        let time = ContinuousClock.now - began
        let report = try fleet.report()
        let result = try database.read { try RolesResult($0) }
        let faults = report.faults
        func count(_ name: String) -> Int { faults.count { $0.contains(": \(name): ") } }
        print(
            """
            \(processes) processes, \(String(format: "%.1f", time / .seconds(1))) s, \(count("kill")) kills, \(count("stop")) freezes, \
            \(count("suspend")) suspensions
            \(result)
            """
        )
        if !result.problems.isEmpty { print("to run it again: --seed 0x\(String(fleet.seed, radix: 16))") }
        return result.problems.isEmpty
    }
}

/// Mistakes of a program, which the campaign must find.
enum RolesDefect: String, CaseIterable, ExpressibleByArgument {
    /// The holder writes without the check.
    case noCheck = "no-check"
}

/// The database of the campaign.
enum RolesWorld {
    static let role = "writer"
    static let patience = Duration.milliseconds(500)

    static func open(in folder: URL, as author: String) throws -> SharedDatabase {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("log") { db in
            // No constraint, so that what must not be there is found, and not prevented.
            try db.execute(
                sql:
                    "CREATE TABLE log (id INTEGER PRIMARY KEY AUTOINCREMENT, generation INTEGER, worker INTEGER, time INTEGER)"
            )
        }
        let url = folder.appendingPathComponent("roles.sqlite")
        var options = SharedDatabase.Options()
        // A worker may be suspended before it has opened the database.
        options.whileSuspended = .wait
        return try SharedDatabase.open(at: url, schema: SharedSchema(migrator), as: author, options: options)
    }
}
