import Foundation
import RoundtableCore

/// The queues of a database, seen from outside. It encodes as the field `jobs` of `roundtable status --json`.
struct JobsStatus: Codable, Sendable, Equatable {
    /// The queues that have a job in any state, or the row of a worker, ordered by name.
    var queues: [JobQueueStatus]
    /// The columns of the tables that this version does not know. A newer version has added them, so the numbers may not say all.
    var unknownColumns: [String] = []

    enum CodingKeys: String, CodingKey { case queues }
}

/// A queue, seen from outside.
struct JobQueueStatus: Codable, Sendable, Equatable {
    var name: String
    /// How many jobs wait for their time, or for their next attempt.
    var scheduled = 0
    /// How many jobs can be claimed. Scheduled ones whose time has come are among them: the next claim makes them `waiting` (rule A3).
    var ready = 0
    /// Since when the first of the ready jobs is due, by the wall clock; nil when none is ready. A job that was given back is due since
    /// before its attempt.
    var readySince: Date?
    /// The time since then, in seconds.
    var readySeconds: Double?
    var running = 0
    /// How many of the running jobs are of lost workers (rule A7).
    var lost = 0
    var dead = 0
    /// The number of workers that live, as far as the table shows them: one that has had no job yet has no row.
    var workers = 0

    /// The workers that live, have no job, and whose lease is over. Such a worker claims a ready job at once.
    var idleWorkers: [SharingProcess] = []
    /// The lost workers that have jobs.
    var lostWorkers: [LostJobWorker] = []
    /// The job that died last; nil when none is dead.
    var newestDeath: JobDeath?

    /// Whether a worker lives that has a job, or whose lease is not over.
    var isAttended: Bool { workers > idleWorkers.count }

    enum CodingKeys: String, CodingKey {
        case name, scheduled, ready, running, lost, dead, workers
        case readySince = "ready_since"
        case readySeconds = "oldest_ready_s"
    }
}

/// A lost worker that has jobs.
struct LostJobWorker: Sendable, Equatable {
    /// nil when the worker has no row any more.
    var process: SharingProcess?
    /// Why it is lost, as a clause that names the worker.
    var reason: String
}

/// The end of a dead job.
struct JobDeath: Sendable, Equatable {
    var date: Date
    /// At most 500 characters of the job's last error.
    var error: String
}

/// Why the tables of jobs are not read: another version has made them.
struct ForeignJobTables: Error, CustomStringConvertible {
    var difference: String

    var description: String {
        """
        \(difference), so another version of Roundtable, or another program, has made the tables. Look with the 'roundtable' of the version \
        that the programs use.
        """
    }
}
