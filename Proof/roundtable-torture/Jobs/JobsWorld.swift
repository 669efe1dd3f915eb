import ArgumentParser
import Foundation
import GRDB
import Roundtable
import RoundtableJobs
import RoundtableTestKit

/// A job of the campaign `jobs`, and of the tests of `RoundtableJobs` with real processes.
package struct CampaignJob: Codable, Sendable {
    /// Counts from 0. Jobs of the first half are added before the workers begin; each adds one of the other half when it is completed.
    package var number: Int
    /// The file that the handler waits for.
    package var gate: String?
    /// The longest time of a handler in ms, in a campaign whose jobs arrive one by one.
    package var longest: Int?
    /// When the job may begin, in ms since 1970.
    package var due: Int64?

    package init(number: Int, gate: String? = nil) {
        self.number = number
        self.gate = gate
    }

    /// How long the handler takes, in ms: a few take nearly the longest time, and most a small part of it.
    var time: Double {
        guard let longest else { return 0 }
        return Double(longest) * pow(Double(number * 7_919 % 1_000) / 1_000, 4)
    }

    /// Whether the handler blocks a thread of Swift's tasks.
    var blocks: Bool { number % 10 == 4 }
}

/// The tables and the jobs of the campaign.
package enum JobsWorld {
    package static let author = "worker"

    /// - parameter lease: in ms.
    package static func queue(lease: Int = 500) -> JobQueue<CampaignJob> {
        JobQueue(
            "campaign",
            retries: JobRetries(
                maximumAttempts: 20,
                firstDelay: .milliseconds(10),
                maximumDelay: .milliseconds(200)
            ),
            lease: .milliseconds(lease)
        )
    }

    package static var schema: SharedSchema {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("jobs") { db in
            try db.createJobTables()
            // No constraint, so that an effect that is there twice is found, and not prevented.
            try db.execute(
                sql: "CREATE TABLE effect (number INTEGER, job INTEGER, attempt INTEGER, pid INTEGER, wait INTEGER)"
            )
        }
        return SharedSchema(migrator)
    }

    static func url(in folder: URL) -> URL { folder.appendingPathComponent("jobs.sqlite") }

    static func open(_ worker: Worker) throws -> SharedDatabase {
        try SharedDatabase.open(at: url(in: worker.folder), schema: schema, as: "\(author) \(worker.number)")
    }

    /// Whether the first attempt fails.
    static func failsOnce(_ number: Int) -> Bool { number % 101 == 0 }

    /// Whether all attempts fail. Never a job that adds another one.
    static func alwaysFails(_ number: Int, of count: Int) -> Bool { number >= count / 2 && number % 9_973 == 5 }

    /// - parameter longest: the longest time of a handler in ms, if the jobs arrive one by one.
    static func add(_ number: Int, longest: Int?, in db: Database) throws {
        let notBefore = number % 50 == 3 ? Date(timeIntervalSinceNow: Double(number % 7) / 20) : nil
        var job = CampaignJob(number: number)
        job.longest = longest
        if longest != nil { job.due = milliseconds(notBefore ?? Date()) }
        try queue().add(job, notBefore: notBefore, priority: number % 3, in: db)
    }

    static func milliseconds(_ date: Date) -> Int64 { Int64(date.timeIntervalSince1970 * 1_000) }

    /// - parameter wait: the time in ms from when the job was due to the beginning of this attempt.
    package static func insertEffect(_ job: Job<CampaignJob>, wait: Int64? = nil, _ db: Database) throws {
        try db.cachedStatement(sql: "INSERT INTO effect VALUES (?, ?, ?, ?, ?)").execute(
            arguments: [job.payload.number, job.id, job.attempt, ProcessInfo.processInfo.processIdentifier, wait]
        )
    }
}

/// Mistakes of a program, which the campaign must find.
enum JobsDefect: String, CaseIterable, ExpressibleByArgument {
    /// The effect is committed in a transaction of its own, before the job is complete.
    case effectsApart = "effects-apart"
    /// The job is completed by SQL that does not ask for the token.
    case noToken = "no-token"
    /// One job of a thousand is marked as done, and its effect is forgotten.
    case forgets
}
