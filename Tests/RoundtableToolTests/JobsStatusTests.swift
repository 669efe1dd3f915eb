import Foundation
import GRDB
import RoundtableCore
import RoundtableKernel
import Testing

@testable import RoundtableJobs
@testable import RoundtableTool

/// What an inspection from outside sees of the tables of jobs, with a fake clock.
@Suite struct JobsStatusTests {
    private let db: DatabaseQueue

    init() throws {
        db = try DatabaseQueue()
        try db.write { try $0.createJobTables() }
    }

    private func status(at time: JobTime) throws -> JobsStatus {
        try #require(try db.read { try JobsStatus($0, at: time) })
    }

    private func queue(_ name: String = "mail", at time: JobTime) throws -> JobQueueStatus {
        try #require(try status(at: time).queues.first { $0.name == name })
    }

    private func add(_ queue: String, notBefore: Int64? = nil, at time: JobTime, _ db: Database) throws {
        _ = try JobTable.add(Data("{}".utf8), to: queue, notBefore: notBefore, priority: 0, key: nil, at: time, db)
    }

    /// Claims jobs as a worker of this process, or of one that has died.
    private func claim(
        _ limit: Int,
        ofDead isDead: Bool = false,
        lease: Int64 = 1_000,
        at time: JobTime,
        _ db: Database
    )
        throws -> [ClaimedJob]
    {
        let own = ProcessIdentity.current
        let other = ProcessIdentity(pid: own.pid, startTime: own.startTime + 1, namespace: own.namespace)
        let worker = JobWorkerRow(
            queue: "mail",
            author: isDead ? "late" : "app",
            process: isDead ? other : own,
            lease: lease,
            at: time
        )
        return try JobTable.claim(limit, of: "mail", at: time, db) { db in
            try JobTable.register(worker, at: time, db)
            return worker.id
        }
    }

    private let policy = JobPolicy(queue: "mail", maximumAttempts: 1, firstDelay: 1, maximumDelay: 1)

    @Test func `Without tables there is no status, and without jobs no queue`() throws {
        #expect(try DatabaseQueue().read { try JobsStatus($0, at: .at(0)) } == nil)
        #expect(try status(at: .at(0)) == JobsStatus(queues: []))
    }

    /// A job that became due later does not make those seem younger that have been waiting.
    @Test func `Jobs are ready since the one that has waited longest`() throws {
        try db.write { db in
            try add("mail", at: .at(1_000), db)
            try add("mail", notBefore: 3_000, at: .at(0), db)
        }
        let queue = try queue(at: .at(10_000))
        #expect(queue.ready == 2 && queue.readySince == Date(timeIntervalSince1970: 1))
    }

    /// A scheduled job whose time has come is ready, although no worker has made it `waiting` (rule A3).
    @Test func `Each job is counted once, and ready since the first is due`() throws {
        try db.write { db in
            try add("mail", at: .at(5_000), db)
            try add("mail", at: .at(4_000), db)
            try add("mail", notBefore: 8_000, at: .at(0), db)
            try add("mail", notBefore: 3_000, at: .at(0), db)
            try add("other", notBefore: 9_000, at: .at(0), db)
        }
        let early = try queue(at: .at(2_000))
        #expect(early.scheduled == 2 && early.ready == 2 && early.readySeconds == 0)
        let due = try queue(at: .at(7_000))
        #expect(due.scheduled == 1 && due.ready == 3 && due.readySeconds == 4)
        #expect(due.readySince == Date(timeIntervalSince1970: 3))
        let other = try queue("other", at: .at(7_000))
        #expect(other.scheduled == 1 && other.ready == 0 && other.readySince == nil && other.readySeconds == nil)
        #expect(try queue("other", at: .at(10_000)).readySeconds == 1)
        #expect(try status(at: .at(0)).queues.map(\.name) == ["mail", "other"])
    }

    @Test func `The dead are counted, with the last one's error`() throws {
        try db.write { db in
            for _ in 0..<4 { try add("mail", at: .at(0), db) }
            for (index, job) in try claim(3, at: .at(0), db).enumerated() {
                // The second one dies last.
                let time = JobTime.at(index == 1 ? 300 : 200)
                let error = "error \(index) " + String(repeating: "x", count: 600)
                try JobTable.fail(job.token, error, isFinal: true, by: policy, at: time, db)
            }
            let done = try claim(1, at: .at(0), db)[0]
            try JobTable.complete(done.token, at: .at(400), db)
            // Names that no JobQueue has, because any program can write to the table.
            let sql = "INSERT INTO roundtable_job (queue, payload, state, finished) VALUES (?, '', ?, 1)"
            try db.execute(sql: sql, arguments: ["", "done"])
            try db.execute(
                sql:
                    "INSERT INTO roundtable_job (queue, payload, state, finished) VALUES ('mail' || char(0) || 'x', '', 'done', 1)"
            )
        }
        let mail = try queue(at: .at(500))
        #expect(mail.dead == 3 && mail.ready == 0 && mail.running == 0)
        #expect(mail.newestDeath?.date == Date(timeIntervalSince1970: 0.3))
        #expect(mail.newestDeath?.error.hasPrefix("error 1 x") == true && mail.newestDeath?.error.count == 500)
        let nameless = try queue("", at: .at(500))
        #expect(nameless.dead == 0 && nameless.newestDeath == nil)
    }

    /// Rules A6 and A7: a worker without a job does not renew its lease, and is not lost.
    @Test func `Workers live as long as their leases, or without a job as long as their process`() throws {
        let jobs = try db.write { db in
            for _ in 0..<2 { try add("mail", at: .at(0), db) }
            return try claim(2, at: .at(0), db)
        }
        let running = try queue(at: .at(500))
        #expect(running.running == 2 && running.lost == 0 && running.workers == 1 && running.isAttended)
        let late = try queue(at: .at(1_000))
        #expect(
            late.running == 2 && late.lost == 2 && late.workers == 0 && !late.isAttended && late.idleWorkers.isEmpty
        )
        #expect(late.lostWorkers.map(\.reason).first?.hasPrefix("the lease of worker 'app' (pid ") == true)
        #expect(late.lostWorkers.map(\.process?.liveness) == [.alive])

        try db.write { db in for job in jobs { try JobTable.complete(job.token, at: .at(600), db) } }
        let fresh = try queue(at: .at(900))
        #expect(fresh.workers == 1 && fresh.isAttended)
        let idle = try queue(at: .at(2_000))
        #expect(idle.workers == 1 && !idle.isAttended && idle.idleWorkers.map(\.name) == ["app"])
        // After a restart of the machine, another process may have the pid.
        #expect(try queue(at: .at(2_000, boot: "next")).workers == 0)
    }

    @Test func `The jobs of a dead worker, and of one without a row, are lost`() throws {
        try db.write { db in
            for _ in 0..<3 { try add("mail", at: .at(0), db) }
            _ = try claim(1, ofDead: true, at: .at(0), db)
            let job = try claim(1, at: .at(0), db)[0].token
            try db.execute(sql: "DELETE FROM roundtable_job_worker WHERE id = ?", arguments: [job.worker])
            _ = try claim(1, at: .at(0), db)
        }
        let mail = try queue(at: .at(1))
        #expect(mail.running == 3 && mail.lost == 2 && mail.workers == 1 && mail.isAttended)
        let pid = ProcessIdentity.current.pid
        #expect(
            Set(mail.lostWorkers.map(\.reason))
                == ["worker 'late' (pid \(pid)) is dead", "its worker is not known any more"]
        )
        #expect(mail.lostWorkers.compactMap(\.process?.liveness) == [.dead])
    }

    /// Millions of finished jobs cost an inspection nothing, and it reads no payloads.
    @Test func `Each query reads an index`() throws {
        try db.read { db in
            func plan(_ sql: String, _ arguments: StatementArguments = []) throws -> [String] {
                try Row.fetchAll(db, sql: "EXPLAIN QUERY PLAN " + sql, arguments: arguments).map { $0["detail"] }
            }
            for (sql, index, arguments) in [
                (JobTable.waitingCountsSQL, "waiting", []), (JobTable.scheduledCountsSQL, "scheduled", [1]),
                (JobTable.runningCountsSQL, "running", []),
            ] as [(String, String, StatementArguments)] {
                let reads = try plan(sql, arguments)
                #expect(reads.count == 1 && reads[0].hasSuffix(" INDEX roundtable_job_\(index)"), "\(reads)")
            }
            let dead = try plan(JobTable.deadCountsSQL)
            let reads = dead.filter { $0.contains(" job ") || $0.contains("roundtable_job") || $0.contains(" dead ") }
            #expect(reads.count == 5, "\(dead)")
            // The index is scanned for its first queue alone.
            let scans = reads.filter { !$0.hasPrefix("SEARCH ") }
            #expect(
                scans.count == 1 && scans[0].hasSuffix(" USING COVERING INDEX roundtable_job_finished"),
                "\(dead)"
            )
            #expect(!dead.contains { $0.contains("TEMP B-TREE") }, "\(dead)")
        }
    }

    // MARK: Other versions

    private func change(_ sql: String) throws -> Result<JobsStatus?, any Error> {
        try db.write { try $0.execute(sql: sql) }
        return Result { try db.read { try JobsStatus($0, at: .at(0)) } }
    }

    @Test func `Columns that this version does not know are named`() throws {
        let status = try change("ALTER TABLE roundtable_job ADD COLUMN tenant TEXT").get()
        #expect(status == JobsStatus(queues: [], unknownColumns: ["roundtable_job.tenant"]))
    }

    @Test(arguments: [
        ("DROP TABLE roundtable_job_worker", "there is no table roundtable_job_worker"),
        (
            "ALTER TABLE roundtable_job RENAME COLUMN due TO at",
            "the table roundtable_job has no column 'due'"
        ),
        (
            "ALTER TABLE roundtable_job_worker DROP COLUMN boot; ALTER TABLE roundtable_job_worker ADD COLUMN boot TEXT",
            "the table roundtable_job_worker has another column 'boot'"
        ),
        (
            "DROP TABLE roundtable_job; CREATE TABLE roundtable_job (id, queue, state)",
            "the table roundtable_job is not strict"
        ),
    ])
    func `Tables of another form are not read`(sql: String, difference: String) throws {
        let error = #expect(throws: ForeignJobTables.self) { try change(sql).get() }
        #expect(error?.difference == difference)
        #expect(error?.description.hasPrefix(difference + ", so another version") == true)
    }
}

extension JobTime {
    /// A time of a fake clock.
    fileprivate static func at(_ time: Int64, boot: String = "boot") -> JobTime {
        JobTime(boot: time, bootID: boot, wall: time)
    }
}
