import Foundation
import GRDB
import RoundtableKernel

/// What distinguishes an attempt from all others of the job (rule A5).
package struct JobToken: Hashable, Sendable {
    package var job: Int64
    package var attempt: Int64
    package var worker: Int64
}

/// A job that a worker has claimed.
package struct ClaimedJob: Sendable {
    package var token: JobToken
    package var payload: Data
    package var priority: Int
    package var failures: Int
}

/// An attempt of a worker that is lost (rule A7).
package struct LostAttempt: Sendable {
    package var job: Int64
    package var attempt: Int64
    package var reason: String
    /// Whether it was the last one of its job.
    package var isDead: Bool
}

/// How a queue treats failures (rule A8). Times are in milliseconds.
package struct JobPolicy: Sendable {
    package var queue: String
    package var maximumAttempts: Int
    package var firstDelay: Int64
    package var maximumDelay: Int64

    /// The pause after so many failures.
    func delay(after failures: Int) -> Int64 {
        let backoff = Backoff(.milliseconds(firstDelay), upTo: .milliseconds(maximumDelay))
        return Int64(backoff.pause(after: failures) / 1_000_000)
    }
}

extension Int {
    /// The next number, also of the largest one: any program can write to the table.
    fileprivate var successor: Int { self == .max ? self : self + 1 }
}

// MARK: Adding, claiming

extension JobTable {
    /// Rule A1.
    ///
    /// - returns: the id; nil if a job with this key waits.
    package static func add(
        _ payload: Data,
        to queue: String,
        notBefore: Int64?,
        priority: Int,
        key: String?,
        at time: JobTime,
        _ db: Database
    ) throws -> Int64? {
        if let key, try waiting(under: key, in: queue, except: nil, db) != nil { return nil }
        let isScheduled = notBefore.map { $0 > time.wall } ?? false
        let sql = """
            INSERT INTO main.roundtable_job (queue, payload, priority, due, state, unique_key, created)
            VALUES (?, ?, ?, ?, ?, ?, ?)
            """
        try db.cachedStatement(sql: sql).execute(
            arguments: [
                queue, String(decoding: payload, as: UTF8.self), priority, notBefore ?? time.wall,
                (isScheduled ? JobState.scheduled : .waiting).rawValue, key, time.wall,
            ]
        )
        return db.lastInsertedRowID
    }

    static let waitingKeySQL = """
        SELECT id FROM main.roundtable_job
        WHERE queue = ? AND unique_key = ? AND unique_key IS NOT NULL AND state IN ('scheduled', 'waiting') AND id IS NOT ?
        """

    /// The job that is scheduled or waiting under a key (rule A9).
    private static func waiting(under key: String, in queue: String, except job: Int64?, _ db: Database) throws
        -> Int64?
    {
        try Int64.fetchOne(db.cachedStatement(sql: waitingKeySQL), arguments: [queue, key, job])
    }

    static let promotionSQL = """
        UPDATE main.roundtable_job SET state = 'waiting' WHERE id IN (
            SELECT id FROM main.roundtable_job WHERE queue = ? AND state = 'scheduled' AND due <= ? ORDER BY due LIMIT 100
        )
        """
    static let nextDueSQL = """
        SELECT due FROM main.roundtable_job WHERE queue = ? AND state = 'scheduled' ORDER BY due LIMIT 1
        """
    static let nextJobsSQL = """
        SELECT id, payload, priority, attempt, failures FROM main.roundtable_job
        WHERE queue = ? AND state = 'waiting' ORDER BY priority DESC, due, id LIMIT ?
        """

    /// Claims up to `limit` jobs (rules A3, A4).
    ///
    /// - parameter worker: renews the lease of the worker, or registers it. Called once, if there is a job.
    package static func claim(
        _ limit: Int,
        of queue: String,
        at time: JobTime,
        _ db: Database,
        worker: (Database) throws -> Int64
    ) throws -> [ClaimedJob] {
        let due = try Int64.fetchOne(db.cachedStatement(sql: nextDueSQL), arguments: [queue])
        if let due, due <= time.wall {
            try db.cachedStatement(sql: promotionSQL).execute(arguments: [queue, time.wall])
        }
        let rows = try Row.fetchAll(db.cachedStatement(sql: nextJobsSQL), arguments: [queue, limit])
        if rows.isEmpty { return [] }
        let worker = try worker(db)
        let update = try db.cachedStatement(
            sql: "UPDATE main.roundtable_job SET state = 'running', attempt = ?, worker = ? WHERE id = ?"
        )
        return try rows.map { row in
            let id: Int64 = row["id"]
            // Any program can write to the table, so the number may be the largest one.
            let attempt = ((row["attempt"] as Int64?) ?? 0) &+ 1
            try update.execute(arguments: [attempt, worker, id])
            return ClaimedJob(
                token: JobToken(job: id, attempt: attempt, worker: worker),
                payload: (row["payload"] as Data?) ?? Data(),
                priority: (row["priority"] as Int?) ?? 0,
                failures: (row["failures"] as Int?) ?? 0
            )
        }
    }
}

// MARK: The end of an attempt

extension JobTable {
    /// What is known of the attempt that holds a token.
    private struct Held {
        var queue: String
        var key: String?
        var failures: Int
        /// Whether this very attempt has completed the job.
        var isDone: Bool
    }

    /// Rule A5.
    ///
    /// - throws: ``JobError/attemptLost(queue:job:attempt:reason:)``.
    private static func check(_ token: JobToken, _ db: Database) throws -> Held {
        let sql = "SELECT queue, unique_key, failures, state, attempt, worker FROM main.roundtable_job WHERE id = ?"
        guard let row = try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [token.job]) else {
            throw JobError.attemptLost(queue: nil, job: token.job, attempt: token.attempt, reason: .removed)
        }
        let state = (row["state"] as String?).flatMap(JobState.init)
        let attempt: Int64? = row["attempt"]
        if attempt == token.attempt, (row["worker"] as Int64?) == token.worker, state == .running || state == .done {
            return Held(
                queue: row["queue"],
                key: row["unique_key"],
                failures: (row["failures"] as Int?) ?? 0,
                isDone: state == .done
            )
        }
        throw JobError.attemptLost(
            queue: row["queue"],
            job: token.job,
            attempt: token.attempt,
            reason: state == .cancelled
                ? .cancelled : .takenBack(laterAttempt: attempt == token.attempt ? nil : attempt)
        )
    }

    /// Whether the token is good: the attempt runs, or it has completed the job.
    package static func holds(_ token: JobToken, _ db: Database) throws -> Bool {
        do {
            _ = try check(token, db)
            return true
        } catch is JobError {
            return false
        }
    }

    /// Whether this very attempt has completed the job.
    ///
    /// - throws: ``JobError/attemptLost(queue:job:attempt:reason:)``.
    static func isDone(_ token: JobToken, _ db: Database) throws -> Bool { try check(token, db).isDone }

    package static func complete(_ token: JobToken, at time: JobTime, _ db: Database) throws {
        if try check(token, db).isDone { return }
        try db.cachedStatement(
            sql: "UPDATE main.roundtable_job SET state = 'done', finished = ?, error = NULL WHERE id = ?"
        )
        .execute(arguments: [time.wall, token.job])
    }

    /// Records a failed attempt (rule A8).
    package static func fail(
        _ token: JobToken,
        _ error: String,
        isFinal: Bool,
        by policy: JobPolicy,
        at time: JobTime,
        _ db: Database
    ) throws {
        let held = try check(token, db)
        if held.isDone { return }
        let failures = held.failures.successor
        if isFinal || failures >= policy.maximumAttempts {
            try bury(token.job, error, failures: failures, at: time, db)
        } else {
            let due = time.wall + policy.delay(after: failures)
            try bringBack(token.job, held.queue, held.key, .scheduled, due: due, error, failures, at: time, db)
        }
    }

    /// Gives the job back, without counting the attempt as a failure.
    package static func release(_ token: JobToken, at time: JobTime, _ db: Database) throws {
        let held = try check(token, db)
        if held.isDone { return }
        try bringBack(token.job, held.queue, held.key, .waiting, due: nil, nil, held.failures, at: time, db)
    }

    static let attemptsSQL = """
        SELECT id, unique_key, failures, attempt FROM main.roundtable_job
        WHERE queue = ? AND state = 'running' AND worker IS ? ORDER BY id DESC
        """

    /// Ends all attempts of a worker that is lost (rule A7). Of two jobs with one key, the newer one comes back (rule A9).
    ///
    /// - returns: the attempts.
    static func endAttempts(of worker: Int64?, _ reason: String, by policy: JobPolicy, at time: JobTime, _ db: Database)
        throws -> [LostAttempt]
    {
        let rows = try Row.fetchAll(db.cachedStatement(sql: attemptsSQL), arguments: [policy.queue, worker])
        return try rows.map { row in
            let failures = ((row["failures"] as Int?) ?? 0).successor
            let attempt = (row["attempt"] as Int64?) ?? 0
            let error = "attempt \(attempt): \(reason)"
            let isDead = failures >= policy.maximumAttempts
            if isDead {
                try bury(row["id"], error, failures: failures, at: time, db)
            } else {
                let key: String? = row["unique_key"]
                try bringBack(row["id"], policy.queue, key, .waiting, due: nil, error, failures, at: time, db)
            }
            return LostAttempt(job: row["id"], attempt: attempt, reason: reason, isDead: isDead)
        }
    }

    private static func bury(_ job: Int64, _ error: String, failures: Int, at time: JobTime, _ db: Database) throws {
        let sql = """
            UPDATE main.roundtable_job SET state = 'dead', worker = NULL, error = ?, failures = ?, finished = ? WHERE id = ?
            """
        try db.cachedStatement(sql: sql).execute(arguments: [error, failures, time.wall, job])
    }

    /// Makes a job scheduled or waiting again, unless another one waits under its key (rule A9).
    ///
    /// - Parameters:
    ///   - due: nil for the present one.
    ///   - error: nil for the present one.
    private static func bringBack(
        _ job: Int64,
        _ queue: String,
        _ key: String?,
        _ state: JobState,
        due: Int64?,
        _ error: String?,
        _ failures: Int,
        at time: JobTime,
        _ db: Database
    ) throws {
        if let key, let other = try waiting(under: key, in: queue, except: job, db) {
            let text =
                "replaced by job \(other), which waits under the same key" + (error.map { "; before: \($0)" } ?? "")
            let sql = """
                UPDATE main.roundtable_job
                SET state = 'cancelled', worker = NULL, error = ?, failures = ?, finished = ? WHERE id = ?
                """
            return try db.cachedStatement(sql: sql).execute(arguments: [text, failures, time.wall, job])
        }
        let sql = """
            UPDATE main.roundtable_job
            SET state = ?, worker = NULL, due = coalesce(?, due), error = coalesce(?, error), failures = ?, finished = NULL
            WHERE id = ?
            """
        try db.cachedStatement(sql: sql).execute(arguments: [state.rawValue, due, error, failures, job])
    }
}

// MARK: Managing

extension JobTable {
    /// Rule A10.
    package static func cancel(_ job: Int64, in queue: String, at time: JobTime, _ db: Database) throws -> Bool {
        let sql = """
            UPDATE main.roundtable_job SET state = 'cancelled', worker = NULL, finished = ?
            WHERE id = ? AND queue = ? AND state IN ('scheduled', 'waiting', 'running')
            """
        try db.cachedStatement(sql: sql).execute(arguments: [time.wall, job, queue])
        return db.changesCount > 0
    }

    package static func retry(_ job: Int64, in queue: String, at time: JobTime, _ db: Database) throws -> Bool {
        let sql = """
            SELECT unique_key FROM main.roundtable_job WHERE id = ? AND queue = ? AND state IN ('dead', 'cancelled')
            """
        guard let row = try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [job, queue]) else { return false }
        let key: String? = row["unique_key"]
        if let key, try waiting(under: key, in: queue, except: job, db) != nil { return false }
        try bringBack(job, queue, nil, .waiting, due: time.wall, nil, 0, at: time, db)
        return true
    }

    static let pruningSQL = """
        DELETE FROM main.roundtable_job WHERE id IN (
            SELECT id FROM main.roundtable_job
            WHERE queue = ? AND state = ? AND finished IS NOT NULL AND finished < ? ORDER BY finished LIMIT ?
        )
        """

    /// - returns: the number of removed jobs.
    package static func prune(
        _ states: Set<JobState>,
        of queue: String,
        finishedBefore time: Int64,
        limit: Int,
        _ db: Database
    ) throws -> Int {
        var count = 0
        for state in states.filter(\.isFinished).sorted(by: { $0.rawValue < $1.rawValue }) where count < limit {
            try db.cachedStatement(sql: pruningSQL).execute(arguments: [queue, state.rawValue, time, limit - count])
            count += db.changesCount
        }
        return count
    }
}
