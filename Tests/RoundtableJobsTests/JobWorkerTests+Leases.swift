import Foundation
import GRDB
import Roundtable
import RoundtableKernel
import Synchronization
import Testing

@testable import RoundtableJobs

/// Leases that are renewed, and attempts that are lost.
extension JobWorkerTests {
    /// The lease is renewed while a handler runs, also if it blocks its thread (rule A6). The workers' clock stands still until it has been.
    @Test(.timeLimit(.minutes(1))) func theLeaseIsRenewed() async throws {
        try await add("A")
        let other = try fixture.open("other")
        let ended = Mutex(false)
        let leaseEnd: @Sendable () throws -> Int64 = { [db] in
            let sql = "SELECT lease_end FROM roundtable_job_worker WHERE author = ?"
            return try db.read { try Int64.fetchOne($0, sql: sql, arguments: [db.author]) } ?? 0
        }
        let start = JobTime.now
        let passed = Mutex<Int64>(0)
        let clock: JobClock = {
            JobTime(boot: start.boot + passed.withLock { $0 }, bootID: start.bootID, wall: JobTime.now.wall)
        }
        // Blocks its thread for three leases.
        let block: @Sendable () throws -> Void = {
            for time in stride(from: 100 as Int64, through: 900, by: 100) {
                passed.withLock { $0 = time }
                try eventually("the lease is renewed at \(time) ms", within: .seconds(30)) {
                    try leaseEnd() == start.boot + time + 300
                }
            }
            ended.withLock { $0 = true }
        }
        let task = Task { [mails, db] in
            try await mails.run(in: db, untilEmpty: true, clock: clock) { _ in try block() }
        }
        try await eventually("the job is claimed") { try await counts().running == 1 }
        let second = Task { [mails] in
            try await mails.run(in: other, untilEmpty: true, clock: clock) { job in
                Issue.record("attempt \(job.attempt) of another worker")
            }
        }
        try await task.value
        try await second.value
        #expect(ended.withLock { $0 })
        #expect(try await counts() == JobCounts(done: 1))
        try other.close()
    }

    /// A worker whose lease another has ended cannot complete the job; its handler's task is cancelled (rules A5, A7b).
    @Test(.timeLimit(.minutes(1))) func aLostAttempt() async throws {
        try await add("A")
        let other = try fixture.open("other")
        let begun = Signal()
        let lost = Mutex<JobError?>(nil)
        let task = Task { [mails, db] in
            try await mails.run(in: db, untilEmpty: true) { job in
                if job.attempt == 2 { return try await job.complete { try Self.effect(job, $0) } }
                begun.raise()
                // The worker notices, and cancels the handler.
                while !Task.isCancelled { await Task.yield() }
                #expect(job.isLost)
                let error = await Self.completionError(job)
                lost.withLock { $0 = error }
                if let error { throw error }
            }
        }
        await begun.wait()
        try await other.write { [mails] db in
            let row = try #require(try JobTable.view(of: "mail", for: nil, db).others.first)
            try JobTable.lose(row, "by this test", by: mails.policy, at: .now, db)
        }
        try await task.value
        guard case .attemptLost("mail", 1, 1, .takenBack) = lost.withLock({ $0 }) else {
            Issue.record("\(String(describing: lost.withLock { $0 }))")
            return
        }
        #expect(try await effects() == [2])
        let job = try await job(1)
        #expect(job?.state == .done && job?.failures == 1)
        try other.close()
    }

    /// A worker that claims again what it has lost cancels the handler of the lost attempt, without waiting for its next renewal (rule A7b).
    @Test(.timeLimit(.minutes(1))) func anEarlierAttemptOfTheSameWorker() async throws {
        try await add("A")
        let other = try fixture.open("other")
        let begun = Signal()
        let wasLost = Mutex(false)
        // It is renewed every 20 s.
        let mails = JobQueue<Mail>("mail", lease: .seconds(60))
        let task = Task { [db] in
            try await mails.run(in: db, workers: 2, untilEmpty: true) { job in
                if job.attempt == 2 { return try await job.complete { try Self.effect(job, $0) } }
                begun.raise()
                try await eventually("the worker notices", within: .seconds(10)) { job.isLost }
                wasLost.withLock { $0 = true }
                _ = await Self.completionError(job)
            }
        }
        await begun.wait()
        try await other.write { db in
            let row = try #require(try JobTable.view(of: "mail", for: nil, db).others.first)
            try JobTable.lose(row, "by this test", by: mails.policy, at: .now, db)
        }
        try await task.value
        #expect(wasLost.withLock { $0 })
        #expect(try await effects() == [2])
        try other.close()
    }

    /// A worker that always finds something to claim looks for lost ones, too (rule A7a).
    @Test(.timeLimit(.minutes(1))) func aLostJobUnderLoad() async throws {
        try await add("lost")
        // The first look, before the first claim, does not find its lease over.
        let row = JobWorkerRow(queue: "mail", author: "gone", process: .current, lease: 500, at: .now)
        try await db.write { db in
            let claimed = try JobTable.claim(1, of: "mail", at: .now, db) { db in
                try JobTable.register(row, at: .now, db)
                return row.id
            }
            #expect(claimed.count == 1)
        }
        for _ in 0..<2 { try await add("other") }
        let found = Mutex(false)
        let task = Task { [mails, db] in
            try await mails.run(in: db) { job in
                if job.payload.to == "lost" { return found.withLock { $0 = true } }
                // Each job adds the next one, so the queue is never empty.
                _ = try await job.complete { try mails.add(Mail(to: "other"), priority: -1, in: $0) }
            }
        }
        try await eventually("the lost job is attempted", within: .seconds(20)) { found.withLock { $0 } }
        task.cancel()
        try await task.value
    }

    /// A running job that is cancelled: its handler is cancelled with the next renewal, and completes nothing (rule A10).
    @Test(.timeLimit(.minutes(1))) func aCancelledJob() async throws {
        try await add("A")
        let begun = Signal()
        let task = Task { [mails, db] in
            try await mails.run(in: db, untilEmpty: true) { job in
                begun.raise()
                try await eventually("the worker notices") { job.isLost }
                let error = await Self.completionError(job)
                #expect(error != nil)
            }
        }
        await begun.wait()
        let isCancelled = try await db.write { [mails] db in try mails.cancel(1, in: db) }
        #expect(isCancelled)
        try await task.value
        #expect(try await counts() == JobCounts(cancelled: 1))
        #expect(try await effects() == [])
    }
}

extension JobWorkerTests {
    /// A worker whose database file was replaced ends with the error, instead of trying for ever (rule W12d).
    @Test(.timeLimit(.minutes(1))) func itsFileIsLost() async throws {
        let worker = Task { [mails, db] in try await mails.run(in: db) { _ in } }
        let path = fixture.url.path
        try FileManager.default.copyItem(atPath: path, toPath: path + ".copy")
        try #require(rename(path + ".copy", path) == 0)
        await #expect(throws: SharedDatabaseError.self) { try await worker.value }
    }
}
