import ArgumentParser
import Foundation
import GRDB
import Roundtable
import RoundtableJobs
import RoundtableTestKit

/// What a campaign tells its processes.
struct JobsPlan: Sendable {
    /// The number of jobs.
    let count: Int
    /// The longest time of a handler in ms. The jobs then arrive one by one while the workers run, and most of the time, workers sleep.
    let longest: Int?
    /// The number of handlers of each process.
    let handlers: Int
    let defect: JobsDefect?

    init(count: Int, longest: Int?, handlers: Int, defect: JobsDefect?) {
        (self.count, self.longest, self.handlers, self.defect) = (count, longest, handlers, defect)
    }

    init(_ worker: Worker) throws {
        guard let count = Int(worker.arguments["jobs"] ?? "") else { throw ValidationError("no number of jobs") }
        self.init(
            count: count,
            longest: worker.arguments["longest"].flatMap(Int.init),
            handlers: worker.arguments["handlers"].flatMap(Int.init) ?? 1,
            defect: worker.arguments["defect"].flatMap(JobsDefect.init)
        )
    }

    var arguments: [String: String] {
        var arguments = ["jobs": String(count), "handlers": String(handlers)]
        arguments["longest"] = longest.map { String($0) }
        arguments["defect"] = defect?.rawValue
        return arguments
    }

    /// In ms. If jobs arrive one by one, most freezes are shorter than the lease: what brings a job back is that its process is gone.
    var lease: Int { longest == nil ? 500 : 30_000 }

    /// The bound of the time from when a job is due to the beginning of an attempt, for each attempt, in ms: the handler of the attempt
    /// before, a freeze of 2 s inside of a transaction, the interval of 1 s at which workers look for lost ones (rule A7a), and 2 s for
    /// the scheduler of a busy machine.
    var longestWait: Int { 1_000 + 2_000 + 2_000 + (longest ?? 0) }

    /// Runs the handlers until all jobs are done.
    func work(in database: SharedDatabase, _ perform: @escaping @Sendable (Job<CampaignJob>) async throws -> Void)
        async throws
    {
        let queue = JobsWorld.queue(lease: lease)
        guard longest != nil else {
            return try await queue.run(in: database, workers: handlers, untilEmpty: true, perform)
        }
        let (count, finished) = (count, "SELECT count(*) FROM roundtable_job WHERE state IN ('done', 'dead')")
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await queue.run(in: database, workers: handlers, perform) }
            group.addTask {
                let counts = ValueObservation.tracking { try Int.fetchOne($0, sql: finished) ?? 0 }
                for try await number in counts.values(in: database) where number >= count { return }
            }
            try await group.next()
            group.cancelAll()
            try await group.waitForAll()
        }
    }
}

/// A process that adds the jobs of the first half one by one. It continues where the process before it was killed.
struct JobsSource {
    private let plan: JobsPlan
    private let database: SharedDatabase
    private var random: SeededGenerator

    init(_ worker: Worker) throws {
        plan = try JobsPlan(worker)
        database = try JobsWorld.open(worker)
        random = SeededGenerator(seed: UInt64(worker.number))
    }

    mutating func run() throws {
        let first = "SELECT count(*) FROM roundtable_job WHERE json_extract(payload, '$.number') < \(plan.count / 2)"
        var next = try database.read { try Int.fetchOne($0, sql: first) ?? 0 }
        while next < plan.count / 2 {
            // The load, not a wait for something: about 3.5 jobs a second and their successors, so that the queue is empty again and again.
            Thread.sleep(forTimeInterval: .random(in: 0...2, using: &random))
            let numbers = next..<min(next + .random(in: 1...6, using: &random), plan.count / 2)
            try database.write { [longest = plan.longest] db in
                for number in numbers { try JobsWorld.add(number, longest: longest, in: db) }
            }
            next = numbers.upperBound
        }
        try database.close()
    }
}
