import GRDB
import Roundtable
import RoundtableKernel
import RoundtableTestBasics
import Testing

@testable import RoundtableJobs

/// Walks through all states of two jobs under one key and two workers, with at most two attempts each, and takes each step in the model and
/// in SQL: both must have the same result, also where the rules refuse it.
@Suite struct JobWalkTests {
    private final class Walk {
        let db: Database
        var ids: [Int64] = [0, 0]
        let workers: [JobWorkerRow]
        var seen: Set<JobModel> = []
        var steps = 0
        var refused = 0
        let mails = JobQueue(
            "mail",
            of: Mail.self,
            retries: JobRetries(
                maximumAttempts: JobModel.maximumAttempts,
                firstDelay: .milliseconds(JobModel.delay),
                maximumDelay: .milliseconds(JobModel.delay)
            )
        )

        init(_ db: Database) {
            self.db = db
            workers = (0..<2).map {
                JobWorkerRow(queue: "mail", author: "\($0)", process: .current, lease: 1_000, at: .at(0))
            }
        }

        func walk(from model: JobModel, _ trace: [JobModel.Step] = []) throws {
            guard seen.insert(model).inserted else { return }
            for step in model.steps(maximumClaims: 2) {
                steps += 1
                var next = model
                let acts = next.take(step)
                if !acts { refused += 1 }
                try check(model, step, next)
                let before = ids
                try db.inSavepoint {
                    try take(step, acts: acts, next, trace)
                    try compare(next, trace + [step])
                    try walk(from: next, trace + [step])
                    return .rollback
                }
                ids = before
            }
        }

        /// All steps are in the table of the rule A2.
        private func check(_ old: JobModel, _ step: JobModel.Step, _ new: JobModel) throws {
            #expect(new.problem == nil, "\(old) \(step)")
            for (old, new) in zip(old.jobs, new.jobs) where old?.state != new?.state {
                guard let from = old?.state, let to = new?.state else { continue }
                let isLegal = JobTransition.allCases.contains { transition in
                    transition.sources.contains(from)
                        && (transition.target == to || to == .cancelled && from == .running
                            || transition == .lose && to == .dead)
                }
                // A claim takes a scheduled job in two steps.
                #expect(isLegal || from == .scheduled && to == .running, "\(from) to \(to) by \(step)")
            }
        }

        private func take(_ step: JobModel.Step, acts: Bool, _ next: JobModel, _ trace: [JobModel.Step]) throws {
            func token(_ job: Int, _ token: JobModel.Token) -> JobToken {
                JobToken(job: ids[job], attempt: token.attempt, worker: workers[token.worker].id)
            }
            func expect(_ holds: Bool, _ body: () throws -> Void) {
                var isLost = false
                do { try body() } catch is JobError { isLost = true } catch { Issue.record(error) }
                #expect(isLost != holds, "\(trace) \(step)")
            }
            switch step {
            case .add(let job):
                let id = try mails.add(Mail(to: "\(job)"), unique: "key", in: db, at: .at(0))
                #expect((id != nil) == acts)
                if let id { ids[job] = id }
            case .claim(let worker, let time):
                let row = workers[worker]
                let claimed = try JobTable.claim(1, of: "mail", at: .at(time), db) { db in
                    if try !JobTable.renew(row.id, lease: row.lease, at: .at(0), db) {
                        try JobTable.register(row, at: .at(0), db)
                    }
                    return row.id
                }
                #expect(claimed.count == (acts ? 1 : 0))
            case .complete(let job, let used):
                expect(next.holds(job, used)) { try JobTable.complete(token(job, used), at: .at(0), db) }
            case .fail(let job, let used):
                let isDone = next.jobs[job]?.state == .done && next.holds(job, used)
                expect(acts || isDone) {
                    try JobTable.fail(token(job, used), "no", isFinal: false, by: mails.policy, at: .at(0), db)
                }
            case .release(let job, let used):
                let isDone = next.jobs[job]?.state == .done && next.holds(job, used)
                expect(acts || isDone) { try JobTable.release(token(job, used), at: .at(0), db) }
            case .lose(let worker):
                let row = try JobWorkerRow.fetchOne(
                    db,
                    sql: "SELECT * FROM roundtable_job_worker WHERE id = ?",
                    arguments: [workers[worker].id]
                )
                let count = try row.map { try JobTable.lose($0, "lost", by: mails.policy, at: .at(0), db).count } ?? 0
                #expect((count > 0) == acts)
            case .cancel(let job):
                #expect(try JobTable.cancel(ids[job], in: "mail", at: .at(0), db) == acts)
            case .retry(let job):
                #expect(try JobTable.retry(ids[job], in: "mail", at: .at(0), db) == acts)
            }
        }

        private func compare(_ model: JobModel, _ trace: [JobModel.Step]) throws {
            for (index, job) in model.jobs.enumerated() {
                guard let job else { continue }
                let row = try #require(
                    try Row.fetchOne(
                        db.cachedStatement(sql: "SELECT * FROM roundtable_job WHERE id = ?"),
                        arguments: [ids[index]]
                    )
                )
                #expect((row["state"] as String) == job.state.rawValue, "job \(index) after \(trace)")
                #expect((row["attempt"] as Int64) == job.attempt, "\(trace)")
                #expect((row["failures"] as Int) == job.failures, "\(trace)")
                #expect((row["worker"] as Int64?) == job.holder.map { workers[$0.worker].id }, "\(trace)")
                let isFinished = [.done, .dead, .cancelled].contains(job.state)
                #expect(((row["finished"] as Int64?) != nil) == isFinished, "\(trace)")
                if job.state == .scheduled || job.state == .waiting { #expect((row["due"] as Int64) == job.due) }
            }
        }
    }

    @Test(.long()) func theTableDoesWhatTheRulesSay() throws {
        try DatabaseQueue().inDatabase { db in
            try db.createJobTables()
            let walk = Walk(db)
            try walk.walk(from: JobModel())
            print("\(walk.seen.count) states, \(walk.steps) steps, \(walk.refused) of them refused")
            #expect(walk.seen.count > 1_000 && walk.refused > 1_000)
        }
    }
}
