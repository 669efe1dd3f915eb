import RoundtableCore

extension JobQueue {
    /// Runs the jobs of this queue, together with all other processes that do so, until the task is cancelled.
    ///
    /// A job whose handler returns is complete, at the latest then. One whose handler throws is attempted again after a pause, or becomes
    /// ``JobState/dead`` (``retries``). Handlers run in tasks of their own. A worker without a job sleeps until a commit of any process
    /// adds one, or until one is due.
    ///
    /// When the task is cancelled, no more jobs are claimed, the tasks of the handlers are cancelled, and the function returns when they
    /// have ended: a handler that returns has completed its job; one that throws releases it, which counts as no failure. While the
    /// database is suspended, this waits, claims nothing, and cannot return before ``SharedDatabase/resume()``.
    ///
    /// - Parameters:
    ///   - db: the database, opened for writing.
    ///   - workers: how many handlers run at the same time in this call. At least 1.
    ///   - untilEmpty: whether to return when the queue has no job that is scheduled, waiting or running, also in other processes.
    ///   - handler: works on one job.
    /// - throws: an error of the database that does not pass by itself, after all handlers have ended. While the database is busy, the
    ///   disk is full or a file cannot be read, this tries again, and reports an event (``WorkerEvent``) if that lasts for a second.
    public func run(
        in db: SharedDatabase,
        workers: Int = 1,
        untilEmpty: Bool = false,
        _ handler: @escaping @Sendable (Job<Payload>) async throws -> Void
    ) async throws {
        try await run(in: db, workers: workers, untilEmpty: untilEmpty, clock: { .now }, handler)
    }

    package func run(
        in db: SharedDatabase,
        workers: Int = 1,
        untilEmpty: Bool = false,
        clock: @escaping JobClock,
        stop: JobStop? = nil,
        report: @escaping @Sendable (AttemptReport) -> Void = { _ in },
        _ handler: @escaping @Sendable (Job<Payload>) async throws -> Void
    ) async throws {
        let maximum = policy.maximumAttempts
        let lease = max(30, lease.milliseconds)
        let worker = JobWorker(db, policy, lease: lease, clock, limit: max(1, workers), report: report) {
            claimed,
            running in
            try await handler(
                Job(
                    id: claimed.token.job,
                    payload: decode(claimed.payload, of: claimed.token.job),
                    priority: claimed.priority,
                    attempt: claimed.token.attempt,
                    failures: claimed.failures,
                    isLastAttempt: claimed.failures >= maximum - 1,
                    running: running
                )
            )
        }
        try await worker.run(untilEmpty: untilEmpty, stop: stop)
    }
}
