import Foundation
import GRDB

/// A job as the table has it.
public struct JobRecord: Sendable, Identifiable, Equatable {
    public var id: Int64
    public var queue: String
    public var state: JobState
    public var priority: Int
    /// When the job may begin, or could have begun.
    public var due: Date
    public var uniqueKey: String?
    /// The number of attempts, released ones included.
    public var attempt: Int64
    /// The number of failed attempts, since the last ``JobQueue/retry(_:in:)``.
    public var failures: Int
    /// The last error; of a cancelled job, perhaps what has replaced it.
    public var error: String?
    public var created: Date
    /// When the job became done, dead or cancelled.
    public var finished: Date?
    /// The payload as JSON. See ``JobQueue/payload(of:)``.
    public var json: Data
}

extension JobRecord: FetchableRecord {
    public init(row: Row) throws {
        id = row["id"]
        queue = row["queue"]
        let name: String = row["state"]
        guard let state = JobState(rawValue: name) else {
            throw DatabaseError(
                message: "job \(id): '\(name)' is no state of this version of RoundtableJobs. Update this program"
            )
        }
        self.state = state
        priority = (row["priority"] as Int?) ?? 0
        due = Date(millisecondsSince1970: row["due"])
        uniqueKey = row["unique_key"]
        attempt = row["attempt"]
        failures = row["failures"]
        error = row["error"]
        created = Date(millisecondsSince1970: row["created"])
        finished = (row["finished"] as Int64?).map { Date(millisecondsSince1970: $0) }
        json = (row["payload"] as Data?) ?? Data()
    }
}

/// How many jobs of a queue are in each state.
public struct JobCounts: Sendable, Equatable {
    public var scheduled = 0
    public var waiting = 0
    public var running = 0
    public var done = 0
    public var dead = 0
    public var cancelled = 0
}

extension JobQueue {
    /// The job with this id; nil if this queue has none.
    public func job(_ id: Int64, in db: Database) throws -> JobRecord? {
        let sql = "SELECT * FROM main.roundtable_job WHERE id = ? AND queue = ?"
        return try JobRecord.fetchOne(db.cachedStatement(sql: sql), arguments: [id, name])
    }

    /// The jobs that will not be attempted again, the one that died last first.
    public func deadJobs(limit: Int = 100, in db: Database) throws -> [JobRecord] {
        let sql = """
            SELECT * FROM main.roundtable_job WHERE queue = ? AND state = 'dead' AND finished IS NOT NULL
            ORDER BY finished DESC LIMIT ?
            """
        return try JobRecord.fetchAll(db.cachedStatement(sql: sql), arguments: [name, limit])
    }

    /// Counts the jobs in each state. It reads an index over all jobs of the queue: some 100 ms for a million.
    public func counts(in db: Database) throws -> JobCounts {
        func count(_ state: JobState) throws -> Int {
            let condition = state.isFinished ? " AND finished IS NOT NULL" : ""
            let sql =
                "SELECT count(*) FROM main.roundtable_job WHERE queue = ? AND state = '\(state.rawValue)'\(condition)"
            return try Int.fetchOne(db.cachedStatement(sql: sql), arguments: [name]) ?? 0
        }
        return JobCounts(
            scheduled: try count(.scheduled),
            waiting: try count(.waiting),
            running: try count(.running),
            done: try count(.done),
            dead: try count(.dead),
            cancelled: try count(.cancelled)
        )
    }

    /// Cancels a job that is not finished. If it is running, its attempt cannot be completed any more: ``Job/complete(in:)`` throws, and
    /// the worker cancels the handler's task when it renews its lease, after up to a third of ``lease``.
    ///
    /// - returns: false if the job is finished, or not of this queue.
    @discardableResult
    public func cancel(_ id: Int64, in db: Database) throws -> Bool {
        try JobTable.cancel(id, in: name, at: .now, db)
    }

    /// Makes a dead or cancelled job wait again, with no failures.
    ///
    /// - returns: false if the job is neither dead nor cancelled, not of this queue, or if another one waits under its key.
    @discardableResult
    public func retry(_ id: Int64, in db: Database) throws -> Bool {
        try JobTable.retry(id, in: name, at: .now, db)
    }

    /// Removes finished jobs, the oldest first. Call it from time to time: nothing else removes jobs.
    ///
    /// - Parameters:
    ///   - date: only jobs that were finished earlier are removed.
    ///   - states: by default, dead jobs are kept, because they are the only record of what was not done.
    ///   - limit: the largest number of jobs. More of them make a longer transaction, for which other writers wait.
    ///   - db: a connection inside a write transaction.
    /// - returns: the number of removed jobs.
    @discardableResult
    public func prune(
        finishedBefore date: Date,
        states: Set<JobState> = [.done, .cancelled],
        limit: Int = 1_000,
        in db: Database
    ) throws -> Int {
        let time = date.millisecondsSince1970
        return try JobTable.prune(states, of: name, finishedBefore: time, limit: max(0, limit), db)
    }
}
