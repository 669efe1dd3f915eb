import Foundation
import GRDB
import RoundtableCore
import RoundtableGate
import RoundtableKernel
import Synchronization

/// Claims jobs of one queue, and runs up to `limit` handlers at a time (rules A3 to A13).
final class JobWorker: Sendable {
    typealias Report = @Sendable (AttemptReport) -> Void
    typealias Perform = @Sendable (ClaimedJob, RunningJob) async throws -> Void

    /// What a worker does, can fail in, and tries again.
    private enum Step { case claiming, storing, renewing, following }

    private struct State {
        /// The id under which this worker claims (rule A7b).
        var id: Int64?
        var running: [JobToken: RunningJob] = [:]
        /// The task that claims jobs.
        var claiming: Task<Void, any Error>?
        /// Whether no more jobs are claimed, and the handlers that run may end.
        var isDraining = false
        var isStopping = false
        /// Why the worker stops, if it is an error.
        var failure: (any Error)?
    }

    let database: SharedDatabase
    let policy: JobPolicy
    /// In ms.
    let lease: Int64
    let clock: JobClock
    private let limit: Int
    private let report: Report
    private let perform: Perform
    private let state = Mutex(State())
    private let trouble: RetryTrouble<Step>
    private let wakes = TaskWakes()
    /// Lets the listener wait for the next change, because the worker looks at the queue, and may sleep then.
    private let idle = TaskWakes()
    /// Wakes the task that gives handlers their grace. The wakes of the claiming task end with its cancellation.
    private let graceEndings = TaskWakes()
    /// Wakes the task that waits for cancelled handlers. It is another one, because the cancellation of a waiting task ends its wakes.
    private let endings = TaskWakes()

    init(
        _ database: SharedDatabase,
        _ policy: JobPolicy,
        lease: Int64,
        _ clock: @escaping JobClock,
        limit: Int,
        report: @escaping Report,
        perform: @escaping Perform
    ) {
        (self.database, self.policy, self.lease, self.clock) = (database, policy, lease, clock)
        (self.limit, self.report, self.perform) = (limit, report, perform)
        let name = "the worker of queue '\(policy.queue)'"
        trouble = RetryTrouble(
            database.reporter,
            interrupted: { WorkerEvent.interrupted(worker: name, $0) },
            resumed: { WorkerEvent.resumed(worker: name, after: $0) }
        )
    }

    /// - parameter stop: ends the run without cancelling handlers at once; nil: nothing does.
    func run(untilEmpty: Bool, stop request: JobStop? = nil) async throws {
        let changes = database.changes(in: Table(JobTable.jobs))
        let listener = Task { await listen(changes) }
        let heartbeat = JobHeartbeat(every: max(10, lease / 3), hasWork: { self.free < self.limit }) { self.renew() }
        defer {
            listener.cancel()
            heartbeat.end()
        }
        let claiming = Task { try await loop(untilEmpty: untilEmpty, heartbeat) }
        state.withLock { $0.claiming = claiming }
        request?.follow { [weak self] in self?.drain() }
        do {
            try await withTaskCancellationHandler {
                do {
                    try await claiming.value
                } catch  where isDraining && !isStopping {
                    // What cannot be claimed while the worker drains is not claimed, and the handlers have their grace.
                }
                if let request, isDraining { await waitForHandlers(within: request.grace) }
            } onCancel: {
                stop(nil)
            }
        } catch is CancellationError {
            // The worker stops.
        } catch  where isStopping {
            // What cannot be claimed while the worker stops is not claimed.
        } catch {
            stop(error)
        }
        stop(nil)
        if let request, isDraining { await release(by: request) }
        for job in state.withLock({ Array($0.running.values) }) { await job.task?.value }
        await leave(within: request?.releaseLimit)
        if let failure = state.withLock({ $0.failure }) { throw failure }
    }

    /// Ends the claiming, also while it waits for the lock, for the end of a suspension, or before it retries.
    private func drain() {
        state.withLock { state in
            state.isDraining = true
            return state.claiming
        }?.cancel()
    }

    /// Waits until no handler runs, the time is over, or the worker stops.
    private func waitForHandlers(within time: Duration) async {
        let end = ContinuousClock.now + time
        while !isStopping, free < limit, ContinuousClock.now < end { await graceEndings.next(until: end) }
    }

    /// Releases the jobs of handlers that do not end after they were cancelled (rule A13). Their attempts have lost the jobs then.
    private func release(by request: JobStop) async {
        // The calling task may be cancelled, and would not wait.
        await Task { [self] in
            let end = ContinuousClock.now + request.cancelGrace
            while free < limit, ContinuousClock.now < end { await endings.next(until: end) }
            let left = state.withLock { Array($0.running.values) }
            if left.isEmpty { return }
            // If this fails, the jobs come back when the lease ends, or the process.
            let isReleased = await succeeds(within: request.releaseLimit) { [self] in
                try await database.write(whileSuspended: .fail) { [self] db in
                    for job in left {
                        do { try JobTable.release(job.token, at: clock(), db) } catch is JobError {}
                    }
                }
            }
            state.withLock { state in for job in left { state.running[job.token] = nil } }
            for job in left {
                job.lose()
                report(AttemptReport(job, nil, .abandoned(isReleased: isReleased)))
            }
        }.value
    }

    /// Begins an access, and waits for its end, but not for longer than a limit, because a handler may hold the turn of this process. The
    /// access may also be made later.
    private func succeeds(
        within limit: Duration,
        _ access: @escaping @Sendable () async throws -> Void
    ) async -> Bool {
        let (outcomes, continuation) = AsyncStream.makeStream(of: Bool.self)
        Task {
            do {
                try await access()
                continuation.yield(true)
            } catch {
                continuation.yield(false)
            }
        }
        let timer = Task {
            try await Task.sleep(for: limit)
            continuation.yield(false)
        }
        defer { timer.cancel() }
        return await outcomes.first { _ in true } ?? false
    }

    private var isDraining: Bool { state.withLock { $0.isDraining } }
    /// Whether no job is begun any more.
    private var isEnding: Bool { state.withLock { $0.isDraining || $0.isStopping } }
    private var isStopping: Bool { state.withLock { $0.isStopping } }
    private var free: Int { state.withLock { limit - $0.running.count } }

    private func stop(_ error: (any Error)?) {
        let (running, claiming) = state.withLock { state in
            state.isStopping = true
            state.failure = state.failure ?? error
            return (Array(state.running.values), state.claiming)
        }
        claiming?.cancel()
        for job in running { job.cancel() }
        graceEndings.wake()
    }

    // MARK: Claiming

    private func loop(untilEmpty: Bool, _ heartbeat: JobHeartbeat) async throws {
        // Whether the last look or claim has found that there is nothing to claim.
        var isExhausted = true
        var nextLook = ContinuousClock.now
        while !isEnding {
            let free = free
            if free == 0 {
                await wakes.next(until: nil)
                continue
            }
            // Lost workers are also looked for while there is always something to claim (rule A7a).
            if !isExhausted, ContinuousClock.now < nextLook {
                let claimed = try await persistently(.claiming) { try await self.claim(free) }
                for job in claimed { start(job) }
                if !claimed.isEmpty { heartbeat.begin() }
                isExhausted = claimed.count < free
                continue
            }
            // Before each look, because the worker may sleep after it: what is committed after the look must wake it.
            idle.wake()
            let id = state.withLock { $0.id }
            let view = try await persistently(.claiming) {
                try await self.database.read { try JobTable.view(of: self.policy.queue, for: id, $0) }
            }
            if try await endLost(view) { continue }
            nextLook = .now + .milliseconds(max(10, min(1_000, lease / 4)))
            if view.canClaim(at: clock()) {
                isExhausted = false
                continue
            }
            if untilEmpty, view.isEmpty, self.free == limit { return }
            await sleep(view)
        }
    }

    private func claim(_ limit: Int) async throws -> [ClaimedJob] {
        let known = state.withLock { $0.id }
        let (jobs, id) = try await database.write(whileSuspended: .wait) { [self] db in
            let time = clock()
            var id = known
            let jobs = try JobTable.claim(limit, of: policy.queue, at: time, db) { db in
                if let known, try JobTable.renew(known, lease: lease, at: time, db) { return known }
                let row = JobWorkerRow(
                    queue: policy.queue,
                    author: database.author,
                    process: .current,
                    lease: lease,
                    at: time
                )
                try JobTable.register(row, at: time, db)
                id = row.id
                return row.id
            }
            return (jobs, id)
        }
        state.withLock { $0.id = id }
        return jobs
    }

    private func start(_ claimed: ClaimedJob) {
        let running = RunningJob(claimed.token, database, clock)
        let earlier = state.withLock { state in
            let earlier = state.running.values.filter { $0.token.job == claimed.token.job }
            state.running[claimed.token] = running
            // The lock is held, so the task cannot end before it is known.
            running.begin(Task { await self.handle(claimed, running) })
            return earlier
        }
        for job in earlier { job.lose() }
        if isStopping { running.cancel() }
    }

    // MARK: Handling

    private enum Outcome: Sendable {
        case completed
        case released
        case failed(String, isFinal: Bool)
    }

    private func handle(_ claimed: ClaimedJob, _ running: RunningJob) async {
        // A worker that stops does not begin with a job.
        if isEnding {
            await record(.released, running)
            return end(claimed)
        }
        var failure: (any Error)?
        do {
            try await perform(claimed, running)
        } catch {
            failure = error
        }
        let isLast = claimed.failures >= policy.maximumAttempts - 1
        let end = await record(failure.map(outcome) ?? .completed, running, isLast: isLast)
        // An abandoned attempt was reported when the worker ended.
        if state.withLock({ $0.running[claimed.token] != nil }) { report(AttemptReport(running, failure, end)) }
        self.end(claimed)
    }

    private func outcome(_ error: any Error) -> Outcome {
        isStopping && !(error is JobRefusal) ? .released : .failed("\(error)", isFinal: error is JobRefusal)
    }

    private func end(_ claimed: ClaimedJob) {
        let isIdle = state.withLock { state in
            state.running[claimed.token] = nil
            return state.running.isEmpty
        }
        // Without a job, there is no lease to renew.
        if isIdle { trouble.succeeded(.renewing) }
        wakes.wake()
        graceEndings.wake()
        endings.wake()
    }

    /// Stores what became of an attempt.
    ///
    /// - parameter isLast: whether the job is dead if the attempt has failed.
    /// - returns: what the database has now.
    @discardableResult
    private func record(_ outcome: Outcome, _ running: RunningJob, isLast: Bool = false) async -> AttemptReport.End {
        if running.isSettled { return .completed }
        let token = running.token
        do {
            return try await uncancelled { [self] in
                try await persistently(.storing, triesWhileStopping: 3) { [self] in
                    // A handler that has completed the job in a transaction of its own needs no other.
                    if running.mayBeComplete, try await database.read({ try JobTable.isDone(token, $0) }) {
                        return .completed
                    }
                    return try await database.write(whileSuspended: .wait) { [self] db in
                        if try JobTable.isDone(token, db) { return .completed }
                        switch outcome {
                        case .completed:
                            try JobTable.complete(token, at: clock(), db)
                            return .completed
                        case .released:
                            try JobTable.release(token, at: clock(), db)
                            return .released
                        case .failed(let text, let isFinal):
                            try JobTable.fail(token, text, isFinal: isFinal, by: policy, at: clock(), db)
                            return isFinal || isLast ? .dead : .failed
                        }
                    }
                }
            }
        } catch is JobError {
            running.lose()
            return .lost
        } catch {
            // The lease of the job ends when this worker has stopped.
            stop(error)
            return .notStored(error)
        }
    }

    // MARK: The lease

    /// Rules A6, A7b, A10. It runs on the thread of the heartbeat, because handlers may block those of Swift's tasks.
    private func renew() {
        let (id, running) = state.withLock { ($0.id, Array($0.running.values)) }
        guard let id, !running.isEmpty else { return }
        do {
            let lost = try database.write(whileSuspended: .wait) { db in
                _ = try JobTable.renew(id, lease: lease, at: clock(), db)
                return try running.filter { try !JobTable.holds($0.token, db) }
            }
            trouble.succeeded(.renewing)
            for job in lost { job.lose() }
        } catch {
            // The next beat does it: the lease is as long as three.
            trouble.failed(.renewing, error)
        }
    }

    /// Ends the attempts of workers that are lost (rule A7).
    ///
    /// - returns: whether there were any.
    private func endLost(_ view: JobView) async throws -> Bool {
        let time = clock()
        let lost = view.others.compactMap { row in row.loss(at: time).map { (row, $0) } }
        if lost.isEmpty, view.unknown.isEmpty { return false }
        let attempts = try await persistently(.claiming) { [self] in
            try await database.write(whileSuspended: .wait) { [self] db in
                try lost.flatMap { try JobTable.lose($0.0, $0.1, by: policy, at: clock(), db) }
                    + view.unknown.flatMap { try JobTable.loseOrphans(of: $0, by: policy, at: clock(), db) }
            }
        }
        for attempt in attempts { report(AttemptReport(attempt)) }
        return true
    }

    /// - parameter limit: how long to wait for the lock; nil: as long as any write waits.
    private func leave(within limit: Duration?) async {
        guard let id = state.withLock({ $0.id }) else { return }
        let leave: @Sendable () async throws -> Void = { [database, policy] in
            try await database.write(whileSuspended: .fail) { try JobTable.leave(id, of: policy.queue, $0) }
        }
        // If this fails, another worker removes the row.
        if let limit { _ = await succeeds(within: limit, leave) } else { try? await uncancelled(leave) }
    }

    // MARK: Sleeping

    /// Rule A11. Returns when the queue has to be looked at.
    private func sleep(_ view: JobView) async {
        let start = clock()
        // When the next job is due, or the next lease over, in ms from now.
        var times = view.others.map { max(1, $0.leaseEnd - start.boot) }
        if let due = view.nextDue { times.append(max(1, min(60_000, due - start.wall))) }
        let end = times.min().map { ContinuousClock.now + .milliseconds($0) }
        guard !view.others.isEmpty else {
            await wakes.next(until: end)
            return
        }
        // The system is asked, not the database (rule A7a).
        let pause = Duration.milliseconds(max(10, min(1_000, view.others.map { $0.lease / 4 }.min() ?? 1_000)))
        while !isEnding {
            let look = ContinuousClock.now + pause
            if await wakes.next(until: end.map { min($0, look) } ?? look) { return }
            let time = clock()
            if let end, ContinuousClock.now >= end { return }
            if view.others.contains(where: { $0.loss(at: time) != nil }) { return }
        }
    }

    /// Wakes the worker with each commit that may have changed the table.
    private func listen(_ changes: DatabaseChanges) async {
        var changes = changes
        while !Task.isCancelled {
            do {
                for try await _ in changes {
                    trouble.succeeded(.following)
                    wakes.wake()
                    // A worker that finds jobs needs no wake. The changes meanwhile arrive as one.
                    await idle.next(until: nil)
                }
                // The database is closed, which the next access finds.
                return wakes.wake()
            } catch let error as DatabaseError where error.isSuspension {
                // An asynchronous read waits until the database is resumed.
                try? await database.read { _ in }
                changes = database.changes(in: Table(JobTable.jobs))
                wakes.wake()
            } catch let error as DatabaseError where Self.passes(error) {
                // Only following failed. The worker looks at the queue when the changes can be followed again.
                trouble.failed(.following, error)
                try? await Task.sleep(for: .seconds(1))
                changes = database.changes(in: Table(JobTable.jobs))
                wakes.wake()
            } catch {
                return stop(error)
            }
        }
    }

    // MARK: Errors

    /// Repeats what failed for a reason that passes, with growing pauses. An error that lasts is reported as an event.
    ///
    /// - parameter triesWhileStopping: nil: none.
    private func persistently<T: Sendable>(
        _ step: Step,
        triesWhileStopping: Int? = nil,
        _ body: @Sendable () async throws -> T
    ) async throws -> T {
        var backoff = Backoff(.milliseconds(50), upTo: .seconds(10))
        while true {
            do {
                let value = try await body()
                trouble.succeeded(step)
                return value
            } catch let error as DatabaseError where Self.passes(error) {
                trouble.failed(step, error)
                let pause = backoff.next()
                if isStopping, backoff.failures >= triesWhileStopping ?? 0 { throw error }
                try await Task.sleep(for: .nanoseconds(Int64(pause)))
            }
        }
    }

    private static func passes(_ error: DatabaseError) -> Bool {
        let passing: [ResultCode] = [
            .SQLITE_BUSY, .SQLITE_FULL, .SQLITE_IOERR, .SQLITE_INTERRUPT, .SQLITE_PROTOCOL, .SQLITE_CANTOPEN,
            .SQLITE_NOMEM, .SQLITE_LOCKED,
        ]
        // Another write of this process has ended the transaction that they shared (rule M5).
        let isLost = error.extendedResultCode == .SQLITE_ABORT_ROLLBACK
        return error.isSuspension || isLost || passing.contains(error.resultCode)
    }
}
