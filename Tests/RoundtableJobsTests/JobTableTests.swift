import Foundation
import GRDB
import Roundtable
import RoundtableKernel
import Testing

@testable import RoundtableJobs

/// The rules A of docs/OPERATIONS-FORMATS.md, without workers, with a fake clock.
@Suite struct JobTableTests {
    private let db: DatabaseQueue
    private let mails = JobQueue(
        "mail",
        of: Mail.self,
        retries: JobRetries(maximumAttempts: 3, firstDelay: .milliseconds(100), maximumDelay: .milliseconds(150))
    )

    init() throws {
        db = try DatabaseQueue()
        try db.write { try $0.createJobTables() }
    }

    /// The row of a process that lives, this one.
    private func worker(_ lease: Int64 = 1_000, at time: JobTime = .at(0)) -> JobWorkerRow {
        JobWorkerRow(queue: "mail", author: "app", process: .current, lease: lease, at: time)
    }

    private func claim(_ limit: Int = 1, by worker: JobWorkerRow, at time: JobTime = .at(0), _ db: Database) throws
        -> [ClaimedJob]
    {
        try JobTable.claim(limit, of: "mail", at: time, db) { db in
            if try !JobTable.renew(worker.id, lease: worker.lease, at: time, db) {
                try JobTable.register(worker, at: time, db)
            }
            return worker.id
        }
    }

    @discardableResult
    private func add(
        _ to: String,
        notBefore: Int64? = nil,
        priority: Int = 0,
        key: String? = nil,
        _ db: Database
    ) throws -> Int64? {
        let date = notBefore.map { Date(timeIntervalSince1970: Double($0) / 1_000) }
        return try mails.add(Mail(to: to), notBefore: date, priority: priority, unique: key, in: db, at: .at(0))
    }

    private func state(_ id: Int64?, _ db: Database) throws -> JobState? {
        try id.flatMap { try mails.job($0, in: db)?.state }
    }

    private func names(_ jobs: [ClaimedJob]) throws -> String {
        try jobs.map { try mails.decode($0.payload, of: $0.token.job).to }.joined()
    }

    // MARK: Adding

    /// A job exists exactly if the caller's rows do (rule A1).
    @Test func aRollbackTakesTheJobBack() throws {
        struct Refused: Error {}
        #expect(throws: Refused.self) {
            try db.write { db in
                #expect(try add("A", db) != nil)
                throw Refused()
            }
        }
        let counts = try db.read { try mails.counts(in: $0) }
        #expect(counts == JobCounts())
    }

    /// SQL that knows nothing but the queue and the payload adds a job that can be claimed (rule A1).
    @Test func sqlSuffices() throws {
        try db.write { db in
            try db.execute(sql: #"INSERT INTO roundtable_job (queue, payload) VALUES ('mail', '{"to":"A"}')"#)
            #expect(try names(claim(by: worker(), db)) == "A")
            let due = try #require(try mails.job(1, in: db)?.due)
            #expect(abs(due.timeIntervalSinceNow) < 60)
        }
    }

    /// Numbers at their limits, which any program can write, make no program crash; texts in their place are refused.
    @Test func strangeNumbers() throws {
        try db.write { db in
            try db.execute(
                sql: """
                    INSERT INTO roundtable_job (queue, payload, priority, due, attempt, failures, state) VALUES
                        ('mail', '{}', ?1, ?1, ?1, ?1, 'waiting'), ('mail', '{}', ?2, ?2, ?2, ?2, 'scheduled'),
                        ('mail', '{}', ?1, ?1, ?1, ?1, 'scheduled')
                    """,
                arguments: [Int64.max, Int64.min]
            )
            let one = worker()
            let jobs = try claim(9, by: one, db)
            #expect(jobs.count == 2)
            try JobTable.fail(jobs[0].token, "no", isFinal: false, by: mails.policy, at: .at(0), db)
            try db.execute(
                sql: "UPDATE roundtable_job_worker SET pid = ?1, start_time = ?1, lease = ?1, lease_end = ?1",
                arguments: [Int64.min]
            )
            let view = try JobTable.view(of: "mail", for: nil, db)
            #expect(view.nextDue == .max && view.others.count == 1)
            #expect(view.others.allSatisfy { $0.loss(at: .at(0)) != nil })
            try JobTable.lose(view.others[0], "lost", by: mails.policy, at: .at(0), db)
            #expect(try mails.counts(in: db) == JobCounts(scheduled: 1, waiting: 1, dead: 1))
            #expect(try mails.job(1, in: db) != nil)
            #expect(throws: DatabaseError.self) { try db.execute(sql: "UPDATE roundtable_job SET attempt = 'x'") }
        }
    }

    /// Of jobs under one key, one is scheduled or waiting; one that runs does not count (rule A9).
    @Test func aKeyIsUniqueWhileItsJobWaits() throws {
        try db.write { db in
            let first = try add("A", key: "a", db)
            #expect(try add("A", key: "a", db) == nil)
            #expect(try add("A", notBefore: 500, key: "a", db) == nil)
            #expect(try add("B", key: "b", db) != nil)
            let other = JobQueue("other", of: Mail.self)
            #expect(try other.add(Mail(to: "A"), unique: "a", in: db) != nil)
            let claimed = try claim(by: worker(), db)
            #expect(claimed.map(\.token.job) == [first])
            let second = try add("A", key: "a", db)
            #expect(second != nil)
            // The failed attempt gives way to the newer job.
            try JobTable.fail(claimed[0].token, "no", isFinal: false, by: mails.policy, at: .at(0), db)
            #expect(try state(first, db) == .cancelled)
            #expect(try mails.job(first!, in: db)?.error?.contains("replaced by job \(second!)") == true)
            #expect(try !mails.retry(first!, in: db))
            // SQL cannot add a second one either.
            #expect(throws: DatabaseError.self) {
                try db.execute(
                    sql: "INSERT INTO roundtable_job (queue, payload, unique_key) VALUES ('mail', '{}', 'a')"
                )
            }
        }
    }

    /// Of two jobs of a lost worker under one key, the newer one comes back (rule A9).
    @Test func theNewerOfTwoLostJobs() throws {
        try db.write { db in
            let one = worker()
            let old = try add("A", key: "a", db)
            #expect(try claim(by: one, db).count == 1)
            let new = try add("A", key: "a", db)
            #expect(try claim(by: one, db).map(\.token.job) == [new])
            let seen = try #require(try JobTable.view(of: "mail", for: nil, db).others.first)
            #expect(try JobTable.lose(seen, "it was frozen", by: mails.policy, at: .at(0), db).count == 2)
            #expect(try state(new, db) == .waiting)
            #expect(try state(old, db) == .cancelled)
        }
    }

    /// SQLite's texts end at a NUL for some functions, and for GRDB.
    @Test func aKeyWithANUL() throws {
        try db.write { db in
            let error = try #require(throws: JobError.self) { try add("A", key: "a\0b", db) }
            #expect(error == .unusableKey(queue: "mail", key: "a\0b"))
            #expect(try mails.counts(in: db) == JobCounts())
        }
    }

    /// Another program has written a row that no comparison of texts finds (rule A7).
    @Test func aForeignWorkerWithANUL() throws {
        try db.write { db in
            let id = try add("A", db)
            _ = try claim(by: worker(), db)
            try db.execute(sql: "UPDATE roundtable_job_worker SET boot = 'x' || char(0) || 'y'")
            let seen = try #require(try JobTable.view(of: "mail", for: nil, db).others.first)
            #expect(seen.loss(at: .at(0)) != nil)
            #expect(try JobTable.lose(seen, "lost", by: mails.policy, at: .at(0), db).count == 1)
            #expect(try state(id, db) == .waiting)
        }
    }

    // MARK: Claiming

    /// Priority, then due time, then the order in which they were added. A job that is due does not bring others with it (rule A3).
    @Test func theOrderOfClaims() throws {
        try db.write { db in
            for (name, due, priority) in [("C", 20, 0), ("D", 20, 0), ("B", 10, 0), ("A", 30, 1), ("E", 5, -1)] {
                try add(name, notBefore: Int64(due), priority: priority, db)
            }
            #expect(try names(claim(9, by: worker(), at: .at(4), db)).isEmpty)
            #expect(try names(claim(9, by: worker(), at: .at(5), db)) == "E")
            #expect(try names(claim(2, by: worker(), at: .at(30), db)) == "AB")
            #expect(try names(claim(9, by: worker(), at: .at(30), db)) == "CD")
        }
    }

    /// A scheduled job does not begin early, and one that waits is not delayed by a clock that is set back (rule A3).
    @Test func theWallClockIsSet() throws {
        try db.write { db in
            try add("later", notBefore: 1_000, db)
            _ = try mails.add(Mail(to: "now"), in: db, at: .at(5_000_000))
            #expect(try names(claim(9, by: worker(), at: .at(0), db)) == "now")
            #expect(try names(claim(9, by: worker(), at: .at(999), db)).isEmpty)
            #expect(try names(claim(9, by: worker(), at: .at(1_000), db)) == "later")
        }
    }

    /// Each claim has an attempt of its own, and no job is claimed twice (rule A4).
    @Test func twoWorkersHaveDifferentJobs() throws {
        try db.write { db in
            for name in ["A", "B", "C"] { try add(name, db) }
            let one = try claim(2, by: worker(), db)
            let other = try claim(2, by: worker(), db)
            #expect(try names(one) == "AB")
            #expect(try names(other) == "C")
            #expect(Set((one + other).map(\.token.worker)).count == 2)
        }
    }

    /// Claims, looks and the pruning read as many rows as they need, whatever the number of jobs (rule A3).
    @Test func allQueriesUseTheirIndexes() throws {
        try db.write { db in
            let queries: [(String, StatementArguments)] = [
                (JobTable.nextJobsSQL, ["mail", 1]), (JobTable.nextDueSQL, ["mail"]),
                (JobTable.promotionSQL, ["mail", 1]), (JobTable.runningWorkersSQL, ["mail"]),
                (JobTable.waitingKeySQL, ["mail", "key", 1]), (JobTable.attemptsSQL, ["mail", 1]),
                (JobTable.pruningSQL, ["mail", "done", 1, 1]),
            ]
            for (sql, arguments) in queries {
                let plan = try Row.fetchAll(db, sql: "EXPLAIN QUERY PLAN " + sql, arguments: arguments)
                    .map { $0["detail"] as String }
                #expect(!plan.contains { $0.hasPrefix("SCAN") || $0.contains("TEMP B-TREE") }, "\(sql)\n\(plan)")
            }
        }
    }

    // MARK: Tokens

    /// A worker that does not hold the token changes nothing (rule A5).
    @Test func onlyTheTokenCompletes() throws {
        try db.write { db in
            let id = try add("A", db)
            let token = try claim(by: worker(), db)[0].token
            for wrong in [
                JobToken(job: token.job, attempt: token.attempt + 1, worker: token.worker),
                JobToken(job: token.job, attempt: token.attempt, worker: token.worker + 1),
                JobToken(job: token.job + 1, attempt: token.attempt, worker: token.worker),
            ] {
                #expect(throws: JobError.self) { try JobTable.complete(wrong, at: .at(0), db) }
                #expect(throws: JobError.self) {
                    try JobTable.fail(wrong, "no", isFinal: true, by: mails.policy, at: .at(0), db)
                }
                #expect(throws: JobError.self) { try JobTable.release(wrong, at: .at(0), db) }
                #expect(try state(id, db) == .running)
            }
            try JobTable.complete(token, at: .at(7), db)
            #expect(try mails.job(id!, in: db)?.finished == Date(timeIntervalSince1970: 0.007))
            // Again, as a handler does that has completed its job itself: nothing happens.
            try JobTable.complete(token, at: .at(8), db)
            try JobTable.fail(token, "no", isFinal: true, by: mails.policy, at: .at(8), db)
            #expect(try state(id, db) == .done)
        }
    }

    /// The error says what has become of the job, and what to do (rule A5).
    @Test func aLostAttemptIsExplained() throws {
        try db.write { db in
            let id = try #require(try add("A", db))
            let one = worker()
            let token = try claim(by: one, db)[0].token
            try JobTable.lose(one, "it was frozen", by: mails.policy, at: .at(0), db)
            let error = #expect(throws: JobError.self) { try JobTable.complete(token, at: .at(0), db) }
            #expect(error == .attemptLost(queue: "mail", job: id, attempt: 1, reason: .takenBack(laterAttempt: nil)))
            _ = try claim(by: worker(), db)
            let later = #expect(throws: JobError.self) { try JobTable.complete(token, at: .at(0), db) }
            #expect(later?.description.contains("attempt 1 has lost it: its lease was over, and attempt 2") == true)
            #expect(try mails.cancel(id, in: db))
            let cancelled = #expect(throws: JobError.self) { try JobTable.complete(token, at: .at(0), db) }
            let next = "the job was cancelled. Roll this transaction back and end the handler"
            #expect(cancelled?.description.hasSuffix(next) == true)
            #expect(JobRefusal("no such customer").localizedDescription == "no such customer")
        }
    }

    // MARK: Failures

    /// Pauses that double, to a limit, and a dead letter with the last error (rule A8).
    @Test func failures() throws {
        try db.write { db in
            let id = try #require(try add("A", db))
            for (time, due) in [(0, 100), (1_000, 1_150)] as [(Int64, Int64)] {
                let token = try claim(by: worker(), at: .at(time), db)[0].token
                try JobTable.fail(token, "at \(time)", isFinal: false, by: mails.policy, at: .at(time), db)
                #expect(try mails.job(id, in: db)?.due == Date(timeIntervalSince1970: Double(due) / 1_000))
                #expect(try claim(by: worker(), at: .at(due - 1), db).isEmpty)
            }
            let token = try claim(by: worker(), at: .at(2_000), db)[0].token
            #expect(token.attempt == 3)
            try JobTable.fail(token, "the last", isFinal: false, by: mails.policy, at: .at(2_000), db)
            let letter = try #require(try mails.deadJobs(in: db).first)
            #expect(letter.id == id && letter.error == "the last" && letter.failures == 3)
            #expect(try mails.retry(id, in: db))
            let again = try #require(try claim(by: worker(), at: .at(2_000), db).first)
            #expect(again.failures == 0 && again.token.attempt == 4)
            try JobTable.fail(again.token, "refused", isFinal: true, by: mails.policy, at: .at(2_000), db)
            #expect(try state(id, db) == .dead)
        }
    }

    /// A worker that stops gives its job back, which counts as no failure (rule A8).
    @Test func aReleasedJobHasNotFailed() throws {
        try db.write { db in
            let id = try #require(try add("A", db))
            for _ in 0..<10 { try JobTable.release(claim(by: worker(), db)[0].token, at: .at(0), db) }
            let job = try #require(try mails.job(id, in: db))
            #expect(job.state == .waiting && job.failures == 0 && job.attempt == 10)
        }
    }

    // MARK: Leases

    /// When a lease is over (rule A6): at its end, after another boot, and if its end cannot be right. No wall clock has a part in it.
    @Test func leases() {
        let row = worker(1_000, at: .at(5_000))
        #expect(!row.isOver(at: .at(5_999)))
        #expect(row.isOver(at: .at(6_000)))
        #expect(row.isOver(at: .at(5_500, boot: "another")))
        #expect(!row.isOver(at: .at(5_500, boot: "")))
        #expect(row.isOver(at: .at(4_999, boot: "")))
        for wall in [0, Int64.max / 2] {
            #expect(!row.isOver(at: JobTime(boot: 5_500, bootID: "boot", wall: wall)))
            #expect(row.isOver(at: JobTime(boot: 6_000, bootID: "boot", wall: wall)))
        }
        var garbage = row
        garbage.leaseEnd = .max
        #expect(garbage.isOver(at: .at(-1)))
    }

    /// A worker is lost if its lease is over or its process dead, and not otherwise (rule A7).
    @Test func lostWorkers() {
        let row = worker(1_000, at: .at(0))
        #expect(row.loss(at: .at(500)) == nil)
        #expect(row.loss(at: .at(1_000))?.contains("the lease of worker 'app'") == true)
        #expect(row.loss(at: .at(1, boot: "another"))?.contains("restarted") == true)
        var dead = row
        // The pid of this process, which began at another time.
        let own = ProcessIdentity.current
        dead.process = ProcessIdentity(pid: own.pid, startTime: own.startTime + 1, namespace: own.namespace)
        #expect(dead.loss(at: .at(500))?.hasSuffix("is dead") == true)
        // Only the lease shows that a process of another pid namespace is lost.
        dead.process = ProcessIdentity(pid: own.pid, startTime: own.startTime + 1, namespace: own.namespace + 1)
        #expect(dead.loss(at: .at(500)) == nil)
    }

    /// A lost worker's jobs come back, or die at last; a renewal between the look and the transaction saves them (rules A7, A7b).
    @Test func jobsComeBack() throws {
        try db.write { db in
            let id = try #require(try add("A", db))
            for attempt in 1...3 {
                let one = worker()
                #expect(try claim(by: one, db)[0].token.attempt == Int64(attempt))
                let seen = try #require(try JobTable.view(of: "mail", for: nil, db).others.first)
                #expect(try JobTable.renew(one.id, lease: 2_000, at: .at(10), db))
                #expect(try JobTable.lose(seen, "it was frozen", by: mails.policy, at: .at(10), db).isEmpty)
                let current = try #require(try JobTable.view(of: "mail", for: nil, db).others.first)
                let lost = try JobTable.lose(current, "it was frozen", by: mails.policy, at: .at(10), db)
                #expect(lost.map(\.attempt) == [Int64(attempt)] && lost.map(\.isDead) == [attempt == 3])
                #expect(try !JobTable.renew(one.id, lease: 2_000, at: .at(10), db))
                #expect(try state(id, db) == (attempt < 3 ? .waiting : .dead))
            }
            #expect(try mails.deadJobs(in: db).first?.error == "attempt 3: it was frozen")
        }
    }

    /// Jobs of a worker whose row a stranger has removed come back, too (rule A7).
    @Test func orphans() throws {
        try db.write { db in
            let id = try add("A", db)
            _ = try claim(by: worker(), db)
            try db.execute(sql: "DELETE FROM roundtable_job_worker")
            try db.execute(sql: "INSERT INTO roundtable_job (queue, payload, state) VALUES ('mail', '{}', 'running')")
            let unknown = try JobTable.view(of: "mail", for: nil, db).unknown
            #expect(unknown.count == 2)
            for worker in unknown { try JobTable.loseOrphans(of: worker, by: mails.policy, at: .at(0), db) }
            #expect(try state(id, db) == .waiting)
            #expect(try mails.counts(in: db).waiting == 2)
        }
    }

    /// Rows of workers that are gone do not pile up, and those with jobs stay.
    @Test func rowsOfWorkersAreRemoved() throws {
        try db.write { db in
            try add("A", db)
            let holder = worker()
            _ = try claim(by: holder, db)
            for _ in 0..<5 { try JobTable.register(worker(), at: .at(0), db) }
            let last = worker(at: .at(1_000))
            try JobTable.register(last, at: .at(1_000), db)
            let left = try Int64.fetchSet(db, sql: "SELECT id FROM roundtable_job_worker")
            #expect(left == [holder.id, last.id])
            try JobTable.leave(holder.id, of: "mail", db)
            try JobTable.leave(last.id, of: "mail", db)
            #expect(try Int64.fetchAll(db, sql: "SELECT id FROM roundtable_job_worker") == [holder.id])
        }
    }

    // MARK: Managing

    /// Pruning removes what was finished before, dead letters only on request, and no more than its limit.
    @Test func pruning() throws {
        try db.write { db in
            for _ in 0..<6 { try add("A", db) }
            let jobs = try claim(5, by: worker(), db)
            for (time, job) in jobs[..<4].enumerated() { try JobTable.complete(job.token, at: .at(Int64(time)), db) }
            try JobTable.fail(jobs[4].token, "no", isFinal: true, by: mails.policy, at: .at(0), db)
            let two = Date(timeIntervalSince1970: 0.002)
            #expect(try mails.prune(finishedBefore: two, limit: 1, in: db) == 1)
            #expect(try mails.prune(finishedBefore: two, in: db) == 1)
            #expect(try mails.prune(finishedBefore: two, in: db) == 0)
            #expect(try mails.counts(in: db) == JobCounts(waiting: 1, done: 2, dead: 1))
            #expect(try mails.prune(finishedBefore: .distantFuture, states: Set(JobState.allCases), in: db) == 3)
            #expect(try mails.counts(in: db) == JobCounts(waiting: 1))
        }
    }

    /// The limit of pruning counts the jobs of all states together.
    @Test(arguments: [1, 2]) func pruningOfSeveralStates(limit: Int) throws {
        try db.write { db in
            for _ in 0..<4 { try add("A", db) }
            let jobs = try claim(4, by: worker(), db)
            try JobTable.fail(jobs[0].token, "no", isFinal: true, by: mails.policy, at: .at(0), db)
            for job in jobs[1...] { try JobTable.complete(job.token, at: .at(0), db) }
            let states: Set<JobState> = [.done, .dead]
            #expect(try mails.prune(finishedBefore: .distantFuture, states: states, limit: limit, in: db) == limit)
            let counts = try mails.counts(in: db)
            #expect(counts.done + counts.dead == 4 - limit)
            #expect(try mails.prune(finishedBefore: .distantFuture, states: states, limit: 4, in: db) == 4 - limit)
        }
    }

    @Test func cancelling() throws {
        try db.write { db in
            let ids = try (0..<3).map { try #require(try add("A", notBefore: $0 == 2 ? 900 : nil, db)) }
            let token = try claim(by: worker(), db)[0].token
            for id in ids { #expect(try mails.cancel(id, in: db)) }
            #expect(try mails.counts(in: db) == JobCounts(cancelled: 3))
            #expect(throws: JobError.self) { try JobTable.complete(token, at: .at(0), db) }
            #expect(try !mails.cancel(ids[0], in: db))
            #expect(try !JobQueue("other", of: Mail.self).retry(ids[0], in: db))
            #expect(try mails.retry(ids[0], in: db))
            #expect(try mails.counts(in: db) == JobCounts(waiting: 1, cancelled: 2))
        }
    }

    /// A payload that this program cannot read is named, with its job.
    @Test func aPayloadOfAnotherForm() throws {
        try db.write { db in
            try db.execute(sql: "INSERT INTO roundtable_job (queue, payload) VALUES ('mail', '[1]')")
            let job = try #require(try mails.job(1, in: db))
            let error = #expect(throws: JobError.self) { try mails.payload(of: job) }
            let what = "job 1 of 'mail': the payload cannot be decoded: Mail: "
            #expect(error?.description.hasPrefix(what) == true)
            #expect(error?.description.contains("Decode the forms of other versions in init(from:)") == true)
        }
    }

    /// A payload that has no JSON is named, and nothing is added. A refusal says what its handler says.
    @Test func aPayloadWithoutAForm() throws {
        let numbers = JobQueue("numbers", of: [Double].self)
        try db.write { db in
            let error = #expect(throws: JobError.self) { try numbers.add([.nan], in: db) }
            let what = "'numbers': the payload of a job cannot be encoded: "
            #expect(error?.description.hasPrefix(what) == true)
            #expect(error?.description.contains("Nothing was added. Correct") == true)
            let counts = try numbers.counts(in: db)
            #expect(counts == JobCounts())
        }
    }
}
