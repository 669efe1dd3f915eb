import Foundation
import GRDB
import Roundtable
import RoundtableKernel
import Synchronization
import Testing

@testable import RoundtableJobs

/// Workers of one process. Those of several are tested in RoundtableProcessTests.
@Suite struct JobWorkerTests {
    let fixture: JobsFixture
    let db: SharedDatabase
    let mails = JobQueue(
        "mail",
        of: Mail.self,
        retries: JobRetries(maximumAttempts: 3, firstDelay: .milliseconds(20), maximumDelay: .milliseconds(40)),
        lease: .milliseconds(300)
    )

    init() throws {
        fixture = try JobsFixture()
        db = try fixture.open()
    }

    func add(_ names: String...) async throws {
        try await db.write { [mails] db in for name in names { try mails.add(Mail(to: name), in: db) } }
    }

    func add(_ name: String, notBefore: Date? = nil, to db: SharedDatabase) async throws {
        _ = try await db.write { [mails] in try mails.add(Mail(to: name), notBefore: notBefore, in: $0) }
    }

    func job(_ id: Int64) async throws -> JobRecord? {
        try await db.read { [mails] in try mails.job(id, in: $0) }
    }

    func counts() async throws -> JobCounts { try await db.read { [mails] in try mails.counts(in: $0) } }

    func effects() async throws -> [Int64] {
        try await db.read { try Int64.fetchAll($0, sql: "SELECT attempt FROM effect ORDER BY rowid") }
    }

    static func effect(_ job: Job<Mail>, _ db: Database) throws {
        try db.execute(sql: "INSERT INTO effect VALUES (?, ?)", arguments: [job.id, job.attempt])
    }

    static func completionError(_ job: Job<Mail>) async -> JobError? {
        do {
            try await job.complete { try effect(job, $0) }
            return nil
        } catch {
            return error as? JobError
        }
    }

    // MARK: Running

    /// Jobs run in their order, and are complete when their handlers return (rules A3, A5).
    @Test(.timeLimit(.minutes(1))) func runs() async throws {
        try await add("A", "B", "C")
        let names = Mutex<[String]>([])
        try await mails.run(in: db, untilEmpty: true) { job in
            names.withLock { $0.append(job.payload.to) }
            if job.payload.to == "B" {
                let result = try await job.complete { db in
                    try Self.effect(job, db)
                    return 7
                }
                #expect(result == 7)
            }
        }
        #expect(names.withLock { $0 } == ["A", "B", "C"])
        #expect(try await counts() == JobCounts(done: 3))
        #expect(try await effects() == [1])
        // The worker has left.
        let workers = try await db.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM roundtable_job_worker") }
        #expect(workers == 0)
    }

    /// As many handlers at a time as was asked for, and no more (rule A4).
    @Test(.timeLimit(.minutes(1))) func manyHandlers() async throws {
        for _ in 0..<20 { try await add("A") }
        let running = Mutex((now: 0, most: 0))
        let go = Signal()
        let task = Task { [mails, db] in
            try await mails.run(in: db, workers: 3, untilEmpty: true) { _ in
                running.withLock { $0 = ($0.now + 1, max($0.most, $0.now + 1)) }
                await go.wait()
                running.withLock { $0.now -= 1 }
            }
        }
        try await eventually("three handlers run") { running.withLock { $0.most } >= 3 }
        #expect(try await counts().running == 3)
        go.raise()
        try await task.value
        #expect(running.withLock { $0.most } == 3)
        #expect(try await counts() == JobCounts(done: 20))
    }

    /// Failed attempts are repeated, and end in a dead letter; a refusal ends in one at once (rule A8).
    @Test(.timeLimit(.minutes(1))) func failures() async throws {
        struct Unlucky: Error {}
        try await add("never", "once", "refused")
        let attempts = Mutex<[String: [Bool]]>([:])
        try await mails.run(in: db, workers: 2, untilEmpty: true) { job in
            attempts.withLock { $0[job.payload.to, default: []].append(job.isLastAttempt) }
            switch job.payload.to {
            case "refused": throw JobRefusal("no such customer")
            case "once" where job.failures > 0: return
            default: throw Unlucky()
            }
        }
        let expected = ["never": [false, false, true], "once": [false, false], "refused": [false]]
        #expect(attempts.withLock { $0 } == expected)
        let letters = try await db.read { [mails] in try mails.deadJobs(in: $0) }
        #expect(Set(letters.map(\.error)) == ["Unlucky()", "no such customer"])
    }

    /// If the handler's transaction is rolled back, so is the completion, and the job is attempted again (rule A5).
    @Test(.timeLimit(.minutes(1))) func aFailedTransactionCompletesNothing() async throws {
        struct Unlucky: Error {}
        try await add("A")
        try await mails.run(in: db, untilEmpty: true) { [db] job in
            try await db.write { db in
                try job.complete(in: db)
                try Self.effect(job, db)
                if job.attempt == 1 { throw Unlucky() }
            }
        }
        #expect(try await effects() == [2])
        #expect(try await counts() == JobCounts(done: 1))
    }

    /// A payload that cannot be decoded is a failure like others, because a newer program may be able to (rule A8).
    @Test(.timeLimit(.minutes(1))) func anUnreadablePayload() async throws {
        try await db.write { try $0.execute(sql: "INSERT INTO roundtable_job (queue, payload) VALUES ('mail', '?')") }
        try await mails.run(in: db, untilEmpty: true) { _ in Issue.record("it has no payload") }
        let letters = try await db.read { [mails] in try mails.deadJobs(in: $0) }
        let letter = try #require(letters.first)
        #expect(letter.failures == 3 && letter.error?.contains("the payload cannot be decoded: Mail: ") == true)
    }

    // MARK: Waking

    /// A sleeping worker is woken by commits of other participants, of strangers, and when a job is due (rule A11).
    @Test(.timeLimit(.minutes(1))) func wakes() async throws {
        let names = Mutex<[String]>([])
        let task = Task { [mails, db] in
            try await mails.run(in: db) { job in names.withLock { $0.append(job.payload.to) } }
        }
        let other = try fixture.open("other")
        try await add("A", to: other)
        try await eventually("the commit of another participant") { names.withLock { $0 } == ["A"] }
        // The worker may still be completing the job before.
        var configuration = Configuration()
        configuration.busyMode = .timeout(10)
        let stranger = try DatabaseQueue(path: fixture.url.path, configuration: configuration)
        try await stranger.write { db in
            try db.execute(sql: #"INSERT INTO roundtable_job (queue, payload) VALUES ('mail', '{"to":"B"}')"#)
        }
        try await eventually("the commit of a stranger") { names.withLock { $0 } == ["A", "B"] }
        let due = Date(timeIntervalSinceNow: 0.3)
        try await add("C", notBefore: due, to: other)
        try await eventually("the due time") { names.withLock { $0 } == ["A", "B", "C"] }
        #expect(Date() >= due)
        task.cancel()
        try await task.value
        try other.close()
    }

    /// A worker whose handler ran for a long time looks for lost workers before it claims, and sleeps if it finds no job. The next job
    /// wakes it (rules A7a, A11).
    @Test(.timeLimit(.minutes(1))) func wakesAfterALongJob() async throws {
        // Renewed every 100 ms; the look is due 75 ms after the one before.
        let mails = JobQueue<Mail>("mail", lease: .milliseconds(300))
        let leaseEnd: @Sendable () async throws -> Int64 = { [db] in
            try await db.read { try Int64.fetchOne($0, sql: "SELECT lease_end FROM roundtable_job_worker") ?? 0 }
        }
        let task = Task { [db] in
            try await mails.run(in: db) { _ in
                let first = try await leaseEnd()
                try await eventually("the lease is renewed") { try await leaseEnd() > first }
            }
        }
        let other = try fixture.open("other")
        for number in 1...5 {
            try await add("\(number)", to: other)
            try await eventually("job \(number) is done") { try await counts().done == number }
        }
        task.cancel()
        try await task.value
        try other.close()
    }

    // MARK: Stopping

    /// A worker that stops waits for its handlers: what they complete is complete, and what they abandon is released (rule A8).
    @Test(.timeLimit(.minutes(1))) func stops() async throws {
        try await add("completed", "given up", "not begun")
        let begun = Mutex(0)
        let task = Task { [mails, db] in
            try await mails.run(in: db, workers: 2) { job in
                begun.withLock { $0 += 1 }
                // Until the worker, which stops, has cancelled its handlers.
                while !Task.isCancelled { await Task.yield() }
                if job.payload.to == "given up" { try Task.checkCancellation() }
                try await job.complete { try Self.effect(job, $0) }
            }
        }
        try await eventually("two have begun") { begun.withLock { $0 } == 2 }
        task.cancel()
        try await task.value
        #expect(try await counts() == JobCounts(waiting: 2, done: 1))
        #expect(try await effects() == [1])
        let job = try await job(2)
        #expect(job?.failures == 0 && job?.attempt == 1)
    }

    /// A worker that drains ends with its last handler, and not with the grace of ten minutes (rule A13).
    @Test(.timeLimit(.minutes(1))) func drains() async throws {
        for round in 1...3 {
            try await add("A")
            let stop = JobStop(grace: .seconds(600), cancelGrace: .seconds(600))
            let (begun, drained) = (Signal(), Signal())
            let hasEnded = Mutex(false)
            let task = Task { [mails, db] in
                try await mails.run(in: db, clock: { .now }, stop: stop) { _ in
                    begun.raise()
                    await drained.wait()
                    #expect(!Task.isCancelled)
                }
                hasEnded.withLock { $0 = true }
            }
            // If the worker waits for the grace, this ends it.
            defer { task.cancel() }
            await begun.wait()
            stop.request()
            drained.raise()
            try await eventually("the worker of round \(round) ends", within: .seconds(15)) { hasEnded.withLock { $0 } }
            #expect(try await counts() == JobCounts(done: round))
        }
    }

    /// A worker that is to stop before it begins claims nothing.
    @Test(.timeLimit(.minutes(1))) func stopsBeforeItBegins() async throws {
        try await add("A")
        let stop = JobStop(grace: .seconds(600), cancelGrace: .seconds(600))
        stop.request()
        let hasEnded = Mutex(false)
        let task = Task { [mails, db] in
            try await mails.run(in: db, clock: { .now }, stop: stop) { _ in Issue.record("a job was claimed") }
            hasEnded.withLock { $0 = true }
        }
        defer { task.cancel() }
        try await eventually("it ends", within: .seconds(15)) { hasEnded.withLock { $0 } }
        #expect(try await counts() == JobCounts(waiting: 1))
    }

    /// An error of the database that does not pass ends the worker, and is thrown.
    @Test(.timeLimit(.minutes(1))) func anErrorThatStays() async throws {
        try await db.write { try $0.execute(sql: "DROP TABLE roundtable_job_worker") }
        try await add("A")
        var thrown: (any Error)?
        do {
            try await mails.run(in: db) { _ in Issue.record("it could not be claimed") }
        } catch {
            thrown = error
        }
        #expect(thrown is DatabaseError)
    }

    /// A full disk prevents the end of a job from being stored: the worker reports it once, and continues afterwards (rule A12).
    @Test(.timeLimit(.minutes(1))) func aFullDisk() async throws {
        let events = Mutex<[SharedDatabase.Event.Kind]>([])
        var options = SharedDatabase.Options()
        options.onEvent = { event in events.withLock { $0.append(event.kind) } }
        let full = try await SharedDatabase.open(at: fixture.url, schema: .unmanaged, as: "full", options: options)
        let pages = try await full.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE ballast (x);
                    CREATE TRIGGER fill AFTER UPDATE OF state ON roundtable_job WHEN NEW.state = 'done'
                    BEGIN INSERT INTO ballast VALUES (zeroblob(1000000)); END
                    """
            )
            let pages = try Int.fetchOne(db, sql: "PRAGMA page_count") ?? 0
            return try Int.fetchOne(db, sql: "PRAGMA max_page_count = \(pages + 20)") ?? 0
        }
        let queue = JobQueue("mail", of: Mail.self)
        try await add("A")
        let reports = Mutex<[AttemptReport]>([])
        let task = Task {
            try await queue.run(
                in: full,
                untilEmpty: true,
                clock: { .now },
                report: { report in reports.withLock { $0.append(report) } },
                { _ in }
            )
        }
        try await eventually("the error is reported") { !events.withLock { $0.isEmpty } }
        #expect(reports.withLock { $0.isEmpty })
        try await full.write { try $0.execute(sql: "PRAGMA max_page_count = \(pages + 1_000)") }
        try await task.value
        #expect(try await counts() == JobCounts(done: 1))
        try full.close()
        // Events are delivered on another thread.
        try await eventually("both events are delivered") { events.withLock { $0.count } >= 2 }
        let kinds = events.withLock { $0 }
        guard kinds.count == 2, case .worker(.interrupted(let worker, let error)) = kinds[0],
            case .worker(.resumed(_, let time)) = kinds[1]
        else { return #expect(Bool(false), "\(kinds)") }
        #expect(worker == "the worker of queue 'mail'")
        #expect((error as? DatabaseError)?.resultCode == .SQLITE_FULL)
        #expect(time >= .seconds(1))
        guard case .completed? = reports.withLock({ $0.first?.end }) else { return #expect(Bool(false)) }
    }

    /// Renewals that fail are reported. They count no longer when no job needs one (rule A12).
    @Test(.timeLimit(.minutes(1))) func renewalsThatFail() async throws {
        let events = Mutex<[SharedDatabase.Event.Kind]>([])
        var options = SharedDatabase.Options()
        options.onEvent = { event in events.withLock { $0.append(event.kind) } }
        let full = try await SharedDatabase.open(at: fixture.url, schema: .unmanaged, as: "full", options: options)
        try await full.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE ballast (x);
                    CREATE TRIGGER fill AFTER UPDATE OF lease_end ON roundtable_job_worker
                    BEGIN INSERT INTO ballast VALUES (zeroblob(1000000)); END
                    """
            )
            let pages = try Int.fetchOne(db, sql: "PRAGMA page_count") ?? 0
            _ = try Int.fetchOne(db, sql: "PRAGMA max_page_count = \(pages + 20)")
        }
        try await add("A")
        let reported = Signal()
        let task = Task { [mails] in
            try await mails.run(in: full, untilEmpty: true) { _ in await reported.wait() }
        }
        try await eventually("the error is reported") { !events.withLock { $0.isEmpty } }
        reported.raise()
        try await task.value
        try full.close()
        let kinds = events.withLock { $0 }
        guard kinds.count == 2, case .worker(.interrupted) = kinds[0], case .worker(.resumed) = kinds[1] else {
            return #expect(Bool(false), "\(kinds)")
        }
    }

    /// The end of an attempt that can never be stored ends the worker, and its report says so.
    @Test(.timeLimit(.minutes(1))) func anEndThatCannotBeStored() async throws {
        try await db.write { db in
            try db.execute(
                sql: """
                    CREATE TRIGGER refuse BEFORE UPDATE OF state ON roundtable_job WHEN NEW.state = 'done'
                    BEGIN SELECT RAISE(ABORT, 'no'); END
                    """
            )
        }
        try await add("A")
        let reports = Mutex<[AttemptReport]>([])
        await #expect(throws: DatabaseError.self) {
            try await mails.run(
                in: db,
                clock: { .now },
                report: { report in reports.withLock { $0.append(report) } },
                { _ in }
            )
        }
        guard case .notStored(let error)? = reports.withLock({ $0.first?.end }) else { return #expect(Bool(false)) }
        #expect((error as? DatabaseError)?.resultCode == .SQLITE_CONSTRAINT)
        #expect(try await counts() == JobCounts(running: 1))
    }

    // MARK: The gate

    /// Behind a closed gate, a worker claims nothing and renews nothing. A lease that ended meanwhile is noticed (rule A12).
    @Test(.timeLimit(.minutes(1))) func aClosedGate() async throws {
        try await add("A")
        // Another process would not be suspended with this one.
        let awake = try await SharedDatabase.open(at: fixture.url, schema: .unmanaged, as: "awake")
        let (begun, resumed) = (Signal(), Signal())
        let attempts = Mutex<[Int64]>([])
        let task = Task { [mails, db] in
            try await mails.run(in: db, workers: 2) { job in
                attempts.withLock { $0.append(job.attempt) }
                begun.raise()
                await resumed.wait()
                try await job.complete { try Self.effect(job, $0) }
            }
        }
        await begun.wait()
        let suspension = await db.suspend(deadline: .now + .seconds(5))
        #expect(suspension.outcome == .released)
        try await add("B", to: awake)
        // The other worker finds the lease over, and takes both jobs.
        try await mails.run(in: awake, workers: 2, untilEmpty: true) { job in
            try await job.complete { try Self.effect(job, $0) }
        }
        #expect(attempts.withLock { $0 } == [1])
        let done = try await awake.read { try Int64.fetchAll($0, sql: "SELECT attempt FROM effect ORDER BY job") }
        #expect(done == [2, 1])
        db.resume()
        resumed.raise()
        try await add("C", to: awake)
        try await eventually("the resumed worker continues") { try await counts().done == 3 }
        task.cancel()
        try await task.value
        #expect(try await effects().count == 3)
        try awake.close()
    }

    /// **Rule A11**: a worker whose connections were closed by a suspension finds what was added meanwhile, though no commit follows.
    @Test(.timeLimit(.minutes(1))) func addedWhileParked() async throws {
        let looks = Mutex(0)
        let parked = try fixture.open("parked") { options in
            options.suspensionPolicy = .everything
            options.configuration.maximumReaderCount = 1
            options.configuration.prepareDatabase { db in
                db.trace { event in
                    let look = "SELECT EXISTS (SELECT * FROM main.roundtable_job WHERE queue = ? AND state = 'waiting')"
                    if event.description == look { looks.withLock { $0 += 1 } }
                }
            }
        }
        let task = Task { [mails] in
            try await mails.run(in: parked, workers: 1) { job in try await job.complete { try Self.effect(job, $0) } }
        }
        for round in 1...5 {
            // A look at the queue that begins now, and finds nothing to do. Without a wake, the worker then sleeps until that job is due.
            // An earlier wake may have caused the look, so there are several of them.
            for _ in 0..<3 {
                let before = looks.withLock { $0 }
                try await add("later", notBefore: Date(timeIntervalSinceNow: 3600), to: db)
                try await eventually("the worker looks at the queue") { looks.withLock { $0 } > before }
            }
            let suspension = await parked.suspend(deadline: .now + .seconds(30))
            #expect(suspension.outcome == .released)
            try await add("B", to: db)
            // The worker reads before it follows the changes again. Long reads on the only connection let the commit be followed first.
            let reads = (0..<5).map { _ in Task { try await parked.read { _ in Thread.sleep(forTimeInterval: 0.05) } } }
            parked.resume()
            for read in reads { try await read.value }
            try await eventually("the job of round \(round) is done") { try await counts().done == round }
        }
        task.cancel()
        try await task.value
        try parked.close()
    }
}
