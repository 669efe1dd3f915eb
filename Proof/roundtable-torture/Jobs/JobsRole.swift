import ArgumentParser
import Foundation
import GRDB
import Roundtable
import RoundtableJobs
import RoundtableTestKit

/// A worker process of `jobs`, which a fleet starts; and with a path, one of the tests, which prints what it does.
struct JobsRole: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "jobs-role", shouldDisplay: false)

    @Option(help: "The path of a database. The worker runs its jobs until it is ended.")
    var path: String?
    @Option(help: "The lease in ms.")
    var lease = 1_000

    func run() async throws {
        await Fleet.runRole([
            "worker": { worker in try await Self.work(worker) },
            "source": { worker in
                var source = try JobsSource(worker)
                try source.run()
            },
        ])
        guard let path else { throw ValidationError("only a fleet starts this command without a path") }
        try await Self.report(path, lease: lease)
    }

    private struct PlannedFailure: Error {}

    private static func work(_ worker: Worker) async throws {
        let plan = try JobsPlan(worker)
        let database = try JobsWorld.open(worker)
        try await plan.work(in: database) { job in
            let began = JobsWorld.milliseconds(Date())
            let time = job.payload.time
            if job.payload.blocks { block(for: time) } else { try await Task.sleep(for: .milliseconds(time)) }
            let number = job.payload.number
            if JobsWorld.alwaysFails(number, of: plan.count) || JobsWorld.failsOnce(number) && job.failures == 0 {
                throw PlannedFailure()
            }
            try await finish(job, wait: job.payload.due.map { began - $0 }, plan, database)
        }
        try database.close()
    }

    /// A function of its own, because asynchronous ones may not block their thread.
    private static func block(for time: Double) { Thread.sleep(forTimeInterval: time / 1_000) }

    private static func finish(_ job: Job<CampaignJob>, wait: Int64?, _ plan: JobsPlan, _ db: SharedDatabase)
        async throws
    {
        let effects: @Sendable (Database) throws -> Void = { db in
            try JobsWorld.insertEffect(job, wait: wait, db)
            let successor = job.payload.number + plan.count / 2
            if job.payload.number < plan.count / 2, successor < plan.count {
                try JobsWorld.add(successor, longest: plan.longest, in: db)
            }
        }
        let completion = "UPDATE roundtable_job SET state = 'done', finished = 1 WHERE id = ?"
        switch plan.defect {
        case nil: try await job.complete(effects)
        case .effectsApart: try await db.write { try effects($0) }
        case .noToken:
            // Not cancelled when the worker finds out that it has lost the job.
            try await Task {
                try await db.write { db in
                    try effects(db)
                    try db.execute(sql: completion, arguments: [job.id])
                }
            }.value
        case .forgets where job.payload.number % 1_000 == 7:
            try await db.write { try $0.execute(sql: completion, arguments: [job.id]) }
        case .forgets: try await job.complete(effects)
        }
    }

    /// Prints a line when a handler begins, and when it has completed its job or lost it.
    private static func report(_ path: String, lease: Int) async throws {
        let database = try await SharedDatabase.open(
            at: URL(fileURLWithPath: path),
            schema: JobsWorld.schema,
            as: JobsWorld.author
        )
        say("ready")
        try await JobsWorld.queue(lease: lease).run(in: database, workers: 2) { job in
            say("began \(job.payload.number) \(job.attempt)")
            // It does not end when its task is cancelled.
            if let gate = job.payload.gate {
                _ = await Task { while access(gate, F_OK) != 0 { try await Task.sleep(for: .milliseconds(2)) } }.result
            }
            do {
                try await job.complete { try JobsWorld.insertEffect(job, $0) }
                say("completed \(job.payload.number) \(job.attempt)")
            } catch {
                say("failed \(job.payload.number) \(job.attempt): \(error)")
                throw error
            }
        }
    }

    private static func say(_ line: String) {
        print(line)
        fflush(nil)
    }
}
