import Foundation
import GRDB
import RoundtableCore
import RoundtableJobs
import RoundtableKernel

extension JobsStatus {
    /// Inspects the tables in a read transaction of `db`, which may be read-only. It counts entries of indexes.
    ///
    /// - returns: nil when the database has no tables of jobs.
    /// - throws: ``ForeignJobTables``, `DatabaseError`.
    init?(_ db: Database, at time: JobTime) throws {
        guard let unknown = try JobTable.unknownColumns(db) else { return nil }
        var reading = Reading(time: time)
        try reading.readJobs(db)
        try reading.readWorkers(db)
        queues = reading.queues.values.sorted { $0.name < $1.name }
        unknownColumns = unknown
    }

    /// The queues while they are read.
    private struct Reading {
        let time: JobTime
        var queues: [String: JobQueueStatus] = [:]

        subscript(name: String) -> JobQueueStatus {
            get { queues[name] ?? JobQueueStatus(name: name) }
            set { queues[name] = newValue }
        }

        mutating func readJobs(_ db: Database) throws {
            for row in try Row.fetchAll(db, sql: JobTable.waitingCountsSQL) {
                self[row["queue"]].addReady(row["jobs"], due: row["due"], at: time)
            }
            for row in try Row.fetchAll(db, sql: JobTable.scheduledCountsSQL, arguments: [time.wall]) {
                let (jobs, ready): (Int, Int) = (row["jobs"], row["ready"])
                self[row["queue"]].scheduled += jobs - ready
                if ready > 0 { self[row["queue"]].addReady(ready, due: row["due"], at: time) }
            }
            for row in try Row.fetchAll(db, sql: JobTable.deadCountsSQL) {
                self[row["queue"]].dead += row["jobs"]
                guard let finished: Int64 = row["finished"] else { continue }
                self[row["queue"]].newestDeath = JobDeath(
                    date: Date(millisecondsSince1970: finished),
                    error: (row["error"] as String?) ?? ""
                )
            }
        }

        mutating func readWorkers(_ db: Database) throws {
            let workers = try JobWorkerRow.fetchAll(db, sql: JobTable.workersSQL)
            let known = Dictionary(workers.map { ($0.id, $0) }) { first, _ in first }
            var holders: Set<Int64> = []
            for row in try Row.fetchAll(db, sql: JobTable.runningCountsSQL) {
                let worker: Int64? = row["worker"]
                if let worker { holders.insert(worker) }
                self[row["queue"]].running += row["jobs"]
                guard let lost = loss(of: worker.flatMap { known[$0] }) else { continue }
                self[row["queue"]].lost += row["jobs"]
                self[row["queue"]].lostWorkers.append(lost)
            }
            for worker in workers {
                let isIdle = !holders.contains(worker.id) && worker.isIdle(at: time)
                if isIdle { self[worker.queue].idleWorkers.append(worker.sharingProcess) }
                if isIdle || worker.loss(at: time) == nil { self[worker.queue].workers += 1 }
            }
        }

        /// - returns: nil if the worker is not lost.
        private func loss(of worker: JobWorkerRow?) -> LostJobWorker? {
            guard let worker else { return LostJobWorker(process: nil, reason: JobTable.unknownWorker) }
            return worker.loss(at: time).map { LostJobWorker(process: worker.sharingProcess, reason: $0) }
        }
    }
}

extension JobQueueStatus {
    fileprivate mutating func addReady(_ count: Int, due: Int64, at time: JobTime) {
        let date = Date(millisecondsSince1970: due)
        let since = min(readySince ?? date, date)
        ready += count
        readySince = since
        // The clock may have been set back since.
        readySeconds = max(0, Date(millisecondsSince1970: time.wall).timeIntervalSince(since))
    }
}

extension JobWorkerRow {
    /// Whether the process lives and has let the lease end, as a worker does that has no job (rule A6).
    fileprivate func isIdle(at time: JobTime) -> Bool {
        isOver(at: time) && !isOfOtherBoot(at: time) && process.liveness(seenFrom: .current) == .alive
    }

    fileprivate var sharingProcess: SharingProcess { SharingProcess(process, author: author) }
}
