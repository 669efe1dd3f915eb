import Foundation
import GRDB
import MailShared
import Roundtable
import RoundtableJobs

// nightly   writes the summary of each day, and removes jobs that were done long ago. Beside the other programs, at any time

@main
struct Nightly {
    static func main() async {
        await runProgram {
            let settings = try Settings()
            // All others go first. If this program is killed, the next run continues, because each step is a transaction.
            let db = try await settings.openDatabase(as: "nightly", priority: .background)
            try await db.write { try summarize($0) }
            let removed = try await prune(db, finishedBefore: Date(timeIntervalSinceNow: -settings.keep))
            let days = try await db.read { try Summary.order(Column("day").desc).limit(7).fetchAll($0) }
            try db.close()

            for day in days.reversed() {
                print("\(day.day): \(day.delivered) mails, \(day.repeated) of them after more than one attempt")
            }
            print("\(removed) finished jobs were removed.")
        }
    }

    /// Counts the deliveries of each day from the last summary on. That day is counted again, because it may not have been over; so
    /// are the days on which this program did not run.
    private static func summarize(_ db: Database) throws {
        let sql = """
            INSERT INTO summary (day, delivered, repeated)
            SELECT date(date), count(*), sum(attempt > 1) FROM delivery
            WHERE date >= coalesce((SELECT max(day) FROM summary), '') GROUP BY 1
            ON CONFLICT (day) DO UPDATE SET delivered = excluded.delivered, repeated = excluded.repeated
            """
        try db.execute(sql: sql)
    }

    /// Removes the jobs in short transactions, so that no request waits for long.
    private static func prune(_ db: SharedDatabase, finishedBefore date: Date) async throws -> Int {
        var total = 0
        while true {
            let removed = try await db.write { try Mail.queue.prune(finishedBefore: date, in: $0) }
            total += removed
            if removed < 1_000 { return total }
        }
    }
}
