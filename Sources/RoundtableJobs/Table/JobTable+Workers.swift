import GRDB
import RoundtableCore
import RoundtableKernel

/// A row of `roundtable_job_worker` (rule A6). Times are in milliseconds.
package struct JobWorkerRow: Sendable, Equatable {
    package var id: Int64
    package var queue: String
    package var author: String
    package var process: ProcessIdentity
    package var boot: String
    package var lease: Int64
    package var leaseEnd: Int64

    package init(queue: String, author: String, process: ProcessIdentity, lease: Int64, at time: JobTime) {
        id = Int64.random(in: 1...Int64.max)
        self.queue = queue
        self.author = author
        self.process = process
        boot = time.bootID
        self.lease = lease
        leaseEnd = time.boot + lease
    }

    /// Rule A6.
    package func isOver(at time: JobTime) -> Bool {
        // The numbers may be any, because any program can write to the table.
        isOfOtherBoot(at: time) || leaseEnd <= time.boot || leaseEnd.subtractingReportingOverflow(time.boot).overflow
            || leaseEnd - time.boot > lease
    }

    /// A process that cannot read the boot id writes none.
    package func isOfOtherBoot(at time: JobTime) -> Bool {
        boot != time.bootID && !boot.isEmpty && !time.bootID.isEmpty
    }

    /// Why the worker is lost (rule A7); nil if it is not.
    package func loss(at time: JobTime) -> String? {
        let name = "worker '\(author)' (pid \(process.pid))"
        if isOfOtherBoot(at: time) { return "the machine of \(name) was restarted" }
        if isOver(at: time) { return "the lease of \(name) is over: it was frozen, or could not write, for that long" }
        return process.liveness(seenFrom: .current) == .dead ? "\(name) is dead" : nil
    }
}

extension JobWorkerRow: FetchableRecord {
    package init(row: Row) {
        id = row["id"]
        queue = row["queue"]
        author = row["author"]
        process = ProcessIdentity(row)
        boot = row["boot"]
        lease = row["lease"]
        leaseEnd = row["lease_end"]
    }
}

extension JobTable {
    /// Why the attempts of a worker without a row are lost.
    package static let unknownWorker = "its worker is not known any more"

    /// Adds a worker, and removes those of the queue that are gone and have no jobs.
    package static func register(_ worker: JobWorkerRow, at time: JobTime, _ db: Database) throws {
        let removal = """
            DELETE FROM main.roundtable_job_worker
            WHERE queue = ? AND (boot <> ? OR lease_end <= ?)
            AND id NOT IN (SELECT worker FROM main.roundtable_job WHERE queue = ? AND state = 'running' AND worker IS NOT NULL)
            """
        try db.execute(sql: removal, arguments: [worker.queue, time.bootID, time.boot, worker.queue])
        let sql = """
            INSERT INTO main.roundtable_job_worker
                (id, queue, author, pid, start_time, namespace, boot, lease, lease_end) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
            """
        try db.execute(
            sql: sql,
            arguments: [worker.id, worker.queue, worker.author] + StatementArguments(worker.process.columns)
                + [worker.boot, worker.lease, worker.leaseEnd]
        )
    }

    /// - returns: false if the worker has no row any more (rule A7b).
    package static func renew(_ worker: Int64, lease: Int64, at time: JobTime, _ db: Database) throws -> Bool {
        let sql = "UPDATE main.roundtable_job_worker SET lease = ?, lease_end = ?, boot = ? WHERE id = ?"
        try db.cachedStatement(sql: sql).execute(arguments: [lease, time.boot + lease, time.bootID, worker])
        return db.changesCount > 0
    }

    /// Removes the row of a worker that stops, if it has no jobs.
    package static func leave(_ worker: Int64, of queue: String, _ db: Database) throws {
        let sql = """
            DELETE FROM main.roundtable_job_worker WHERE id = ? AND NOT EXISTS (
                SELECT * FROM main.roundtable_job WHERE queue = ? AND state = 'running' AND worker = ?
            )
            """
        try db.execute(sql: sql, arguments: [worker, queue, worker])
    }

    /// Ends the attempts of a worker that is lost (rule A7), if it has not renewed its lease since it was read.
    ///
    /// - returns: the attempts.
    @discardableResult
    package static func lose(
        _ worker: JobWorkerRow,
        _ reason: String,
        by policy: JobPolicy,
        at time: JobTime,
        _ db: Database
    ) throws -> [LostAttempt] {
        let sql = "DELETE FROM main.roundtable_job_worker WHERE id = ? AND lease_end = ?"
        try db.cachedStatement(sql: sql).execute(arguments: [worker.id, worker.leaseEnd])
        guard db.changesCount > 0 else { return [] }
        return try endAttempts(of: worker.id, reason, by: policy, at: time, db)
    }

    /// Does the same for jobs whose worker has no row: a stranger has removed it.
    @discardableResult
    package static func loseOrphans(of worker: Int64?, by policy: JobPolicy, at time: JobTime, _ db: Database) throws
        -> [LostAttempt]
    {
        let sql = "SELECT EXISTS (SELECT * FROM main.roundtable_job_worker WHERE id = ?)"
        if try Bool.fetchOne(db.cachedStatement(sql: sql), arguments: [worker]) ?? false { return [] }
        return try endAttempts(of: worker, unknownWorker, by: policy, at: time, db)
    }
}

/// What a worker sees of its queue.
package struct JobView: Sendable {
    package var hasWaiting = false
    package var nextDue: Int64?
    /// The other workers that hold jobs.
    package var others: [JobWorkerRow] = []
    /// The workers of running jobs that have no row.
    package var unknown: [Int64?] = []
    package var hasOwn = false

    package var isEmpty: Bool { !hasWaiting && nextDue == nil && others.isEmpty && unknown.isEmpty && !hasOwn }
    package func canClaim(at time: JobTime) -> Bool { hasWaiting || nextDue.map { $0 <= time.wall } ?? false }
}

extension JobTable {
    static let runningWorkersSQL = """
        SELECT DISTINCT worker FROM main.roundtable_job WHERE queue = ? AND state = 'running'
        """

    package static func view(of queue: String, for worker: Int64?, _ db: Database) throws -> JobView {
        var view = JobView()
        let waiting = "SELECT EXISTS (SELECT * FROM main.roundtable_job WHERE queue = ? AND state = 'waiting')"
        view.hasWaiting = try Bool.fetchOne(db.cachedStatement(sql: waiting), arguments: [queue]) ?? false
        view.nextDue = try Int64.fetchOne(db.cachedStatement(sql: nextDueSQL), arguments: [queue])
        let running = try Int64?.fetchAll(db.cachedStatement(sql: runningWorkersSQL), arguments: [queue])
        for id in running {
            if let id, id == worker {
                view.hasOwn = true
                continue
            }
            let sql = "SELECT * FROM main.roundtable_job_worker WHERE id = ?"
            if let row = try JobWorkerRow.fetchOne(db.cachedStatement(sql: sql), arguments: [id]) {
                view.others.append(row)
            } else {
                view.unknown.append(id)
            }
        }
        return view
    }
}
