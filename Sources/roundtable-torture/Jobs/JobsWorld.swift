import ArgumentParser
import Foundation
import GRDB
import Roundtable
import RoundtableJobs

/// A job of the campaign `jobs`, and of the tests of `RoundtableJobs` with real processes.
package struct CampaignJob: Codable, Sendable {
    /// Counts from 0. Jobs of the first half are added before the workers begin; each adds one of the other half when it is completed.
    package var number: Int
    /// The file that the handler waits for.
    package var gate: String?

    package init(number: Int, gate: String? = nil) {
        self.number = number
        self.gate = gate
    }
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

    package static var schema: Schema {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("jobs") { db in
            try db.createJobTables()
            // No constraint, so that an effect that is there twice is found, and not prevented.
            try db.execute(sql: "CREATE TABLE effect (number INTEGER, job INTEGER, attempt INTEGER, pid INTEGER)")
        }
        return Schema(migrator)
    }

    static func url(in folder: URL) -> URL { folder.appendingPathComponent("jobs.sqlite") }

    /// Whether the first attempt fails.
    static func failsOnce(_ number: Int) -> Bool { number % 101 == 0 }

    /// Whether all attempts fail. Never a job that adds another one.
    static func alwaysFails(_ number: Int, of count: Int) -> Bool { number >= count / 2 && number % 9_973 == 5 }

    static func add(_ number: Int, in db: Database) throws {
        let notBefore = number % 50 == 3 ? Date(timeIntervalSinceNow: Double(number % 7) / 20) : nil
        try queue().add(CampaignJob(number: number), notBefore: notBefore, priority: number % 3, in: db)
    }

    package static func insertEffect(_ job: Job<CampaignJob>, _ db: Database) throws {
        try db.cachedStatement(sql: "INSERT INTO effect VALUES (?, ?, ?, ?)").execute(
            arguments: [job.payload.number, job.id, job.attempt, ProcessInfo.processInfo.processIdentifier]
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
