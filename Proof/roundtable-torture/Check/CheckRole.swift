import ArgumentParser
import Foundation
import GRDB
import Roundtable
import RoundtableTestKit

/// The workloads of `check`.
enum CheckedWorkload: String, CaseIterable, ExpressibleByArgument {
    case lists
    case registers
    case bank
    case queue

    var workload: any Workload {
        switch self {
        case .lists: ListAppend()
        case .registers: Register()
        case .bank: Bank()
        case .queue: WorkQueue()
        }
    }

    var schema: SharedSchema {
        var migrator = DatabaseMigrator()
        let workload = workload
        migrator.registerMigration("tables") { try workload.prepare($0) }
        return SharedSchema(migrator)
    }

    static func url(in folder: URL) -> URL { folder.appendingPathComponent("shared.sqlite") }
}

/// A child process of `check` and of the tests of the kit.
struct CheckRole: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "check-role", shouldDisplay: false)

    func run() async throws {
        await Fleet.runRole([
            "writer": { worker in try await Self.write(worker, Self.inOneTransaction) },
            "naive-writer": { worker in try await Self.write(worker, Self.stepByStep) },
            "failing-writer": { _ in throw ValidationError("this role always fails") },
            "endless-writer": { _ in while true { sleep(1) } },
            // What a program that a role starts finds in its environment.
            "environment-reader": { _ in
                let names = ProcessInfo.processInfo.environment.keys
                guard !names.contains("ROUNDTABLE_FLEET_ROLE"), !names.contains("ROUNDTABLE_FLEET_WORKER") else {
                    throw ValidationError("a program of this role would run the role again")
                }
            },
            // Ends when a fleet has delayed it at the point for a second.
            "passer": { worker in
                let began = ContinuousClock.now
                while ContinuousClock.now - began < .seconds(30) {
                    let pass = ContinuousClock.now
                    FaultPoint.pass("here and now")
                    if ContinuousClock.now - pass >= .seconds(1) { return }
                }
                throw ValidationError("no fleet has delayed this role")
            },
        ])
        throw ValidationError("only a fleet starts this command")
    }

    private typealias Perform = (any Workload, [Step], SharedDatabase) throws -> [Step]

    private static func write(_ worker: Worker, _ perform: Perform) async throws {
        #if os(Linux)
            try SuspensionSubject.connectSharedDatabases()
        #endif
        guard let kind = CheckedWorkload(rawValue: worker.arguments["workload"] ?? ""),
            let count = Int(worker.arguments["transactions"] ?? "")
        else { throw ValidationError("the arguments of the role are missing") }
        let workload = kind.workload
        // The asynchronous function waits while the process is suspended.
        let database = try await SharedDatabase.open(
            at: CheckedWorkload.url(in: worker.folder),
            schema: kind.schema,
            as: "writer \(worker.number)"
        )
        try worker.run(workload, transactions: count) { try perform(workload, $0, database) }
        try database.close()
    }

    private static func inOneTransaction(_ workload: any Workload, _ steps: [Step], _ db: SharedDatabase) throws
        -> [Step]
    {
        if steps.allSatisfy(\.isRead) { return try db.read { try workload.perform(steps, $0) } }
        return try db.write { try workload.perform(steps, $0) }
    }

    /// What is wrong with many programs: each step has a transaction of its own, and so has each read on which a write depends.
    private static func stepByStep(_ workload: any Workload, _ steps: [Step], _ db: SharedDatabase) throws -> [Step] {
        try steps.flatMap { step in
            let done =
                switch step {
                case .transfer(let from, let to, let amount):
                    [try naiveTransfer(from, to, amount, db)]
                case .claim: [try naiveClaim(db)]
                default: try inOneTransaction(workload, [step], db)
                }
            FaultPoint.pass("between steps")
            return done
        }
    }

    private static func naiveTransfer(_ from: Int, _ to: Int, _ amount: Int, _ db: SharedDatabase) throws -> Step {
        for (account, change) in [(from, -amount), (to, amount)] {
            let balance = try db.read {
                try Int.fetchOne($0, sql: "SELECT balance FROM accounts WHERE account = ?", arguments: [account]) ?? 0
            }
            FaultPoint.pass("between steps")
            try db.write {
                try $0.execute(
                    sql: "UPDATE accounts SET balance = ? WHERE account = ?",
                    arguments: [balance + change, account]
                )
            }
        }
        return .transfer(from: from, to: to, amount: amount)
    }

    private static func naiveClaim(_ db: SharedDatabase) throws -> Step {
        let row = try db.read { try Row.fetchOne($0, sql: "SELECT id, item FROM queue_items ORDER BY id LIMIT 1") }
        guard let row else { return .claim() }
        FaultPoint.pass("between steps")
        try db.write {
            try $0.execute(sql: "DELETE FROM queue_items WHERE id = ?", arguments: [row["id"] as Int])
        }
        return .claim(item: row["item"])
    }
}
