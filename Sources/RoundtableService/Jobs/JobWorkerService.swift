#if Service
    import CoreMetrics
    import Logging
    import Roundtable
    import RoundtableCore
    import RoundtableJobs
    import RoundtableKernel
    import ServiceLifecycle
    import Tracing

    /// Workers of a queue of jobs as a service of a `ServiceGroup`. See <doc:RunningAsAService>.
    ///
    /// Put it after the ``SharedDatabaseService`` of its database, because a group shuts its services down in reverse order.
    public struct JobWorkerService<Payload: Codable & Sendable>: Service {
        let queue: JobQueue<Payload>
        let database: SharedDatabase
        let workers: Int
        let logger: Logger
        let grace: Duration
        let cancelGrace: Duration
        let metrics: JobMetrics?
        let tracing: Bool
        let handler: @Sendable (Job<Payload>) async throws -> Void

        /// - Parameters:
        ///   - queue: the queue, whose tables exist.
        ///   - database: the database, opened for writing.
        ///   - workers: how many handlers run at the same time. At least 1.
        ///   - logger: receives a line for each attempt that does not complete its job, and for the shutdown.
        ///   - metrics: whether to record metrics with the factory of swift-metrics.
        ///   - tracing: whether to record attempts as spans with the tracer of swift-distributed-tracing: what a handler does is in its span.
        ///   - grace: how long handlers that run may take at shutdown, before their tasks are cancelled.
        ///   - cancelGrace: how long cancelled handlers may take to end, before their jobs are released.
        ///   - metricsInterval: how often jobs are counted, which reads an index of all jobs of the queue. At least 10 ms.
        ///   - handler: works on one job.
        public init(
            _ queue: JobQueue<Payload>,
            in database: SharedDatabase,
            workers: Int = 1,
            logger: Logger,
            metrics: Bool = true,
            tracing: Bool = true,
            grace: Duration = .seconds(10),
            cancelGrace: Duration = .seconds(2),
            metricsInterval: Duration = .seconds(10),
            handler: @escaping @Sendable (Job<Payload>) async throws -> Void
        ) {
            self.queue = queue
            self.database = database
            self.workers = workers
            self.logger = logger
            self.grace = grace
            self.cancelGrace = cancelGrace
            self.tracing = tracing
            self.handler = handler
            self.metrics =
                metrics
                ? JobMetrics(
                    queue: queue.name,
                    path: database.path,
                    MetricsSystem.factory,
                    every: max(.milliseconds(10), metricsInterval)
                ) : nil
        }

        @Sendable private func inSpan(_ job: Job<Payload>) async throws {
            let error: (any Error)? = await withSpan("job \(queue.name)", ofKind: .consumer) { span in
                span.attributes["messaging.destination.name"] = queue.name
                span.attributes["messaging.message.id"] = "\(job.id)"
                span.attributes["roundtable.attempt"] = job.attempt
                do {
                    try await handler(job)
                    return nil
                } catch {
                    span.fail(error)
                    return error
                }
            }
            if let error { throw error }
        }

        /// Runs workers until graceful shutdown or cancellation.
        ///
        /// At graceful shutdown, no more jobs are claimed. Handlers that run have the grace to end; then their tasks are cancelled. The
        /// jobs of handlers that do not end then either are released, so that another worker takes them at once and not when the lease
        /// is over. Releasing is no failure of the job. Such a handler cannot complete its job any more, and this function returns while
        /// the handler still runs. If the handler holds the write lock of this process, its job is not released: it comes back when the
        /// process ends.
        ///
        /// If another program migrates the database, so that this one may not write it any more, no more jobs are done here, and this
        /// function waits for the shutdown: other services of the group may still read.
        ///
        /// Cancellation cancels the handlers at once, and waits for them.
        ///
        /// - throws: an error of the database that does not pass by itself;
        ///   ``SharedDatabaseServiceError/closedBeforeWorkers(path:queue:)``.
        public func run() async throws {
            let stop = JobStop(grace: grace, cancelGrace: cancelGrace)
            let measuring = metrics.map { metrics in
                Task { [queue, database] in
                    await metrics.run { try await database.read { try queue.counts(in: $0) } }
                }
            }
            defer { measuring?.cancel() }
            let log = JobLog(logger, queue: queue.name, path: database.path)
            do {
                log.write(.info, "the jobs are done with up to \(workers.of("handler")) at a time")
                try await withGracefulShutdownHandler {
                    try await queue.run(
                        in: database,
                        workers: workers,
                        clock: { .now },
                        stop: stop,
                        report: { [metrics] report in
                            metrics?.record(report)
                            log.write(report)
                        },
                        tracing ? inSpan : handler
                    )
                } onGracefulShutdown: { [grace] in
                    log.write(.info, "no more jobs are claimed: handlers that run have \(grace) to end")
                    stop.request()
                }
            } catch SharedDatabaseError.schemaTooNew(let path, let migrations) {
                let error = SharedDatabaseError.schemaTooNew(path: path, unknownMigrations: migrations)
                log.write(.error, "no more jobs are done by this process: \(error)")
                try? await gracefulShutdown()
            } catch  where database.isShuttingDown && !Task.isCancelled {
                // Cancellation ends all services of a group at once, in whatever order they are.
                throw SharedDatabaseServiceError.closedBeforeWorkers(path: database.path, queue: queue.name)
            }
        }
    }
#endif
