#if Service
    import CoreMetrics
    import Foundation
    import Logging
    import Roundtable
    import RoundtableCore
    import RoundtableKernel
    import ServiceLifecycle

    /// A shared database as a service of a `ServiceGroup`: it logs events, records metrics, and closes the database in an orderly way when
    /// the program is told to shut down. See <doc:RunningAsAService>.
    ///
    /// ```swift
    /// let group = ServiceGroup(
    ///     services: [SharedDatabaseService(db, logger: logger), server],
    ///     gracefulShutdownSignals: [.sigterm],
    ///     logger: logger
    /// )
    /// try await group.run()
    /// ```
    ///
    /// Put it before the services that use the database, because a group shuts its services down in reverse order.
    public struct SharedDatabaseService: Service {
        let database: SharedDatabase
        let logger: Logger
        let grace: Duration
        let metrics: ServiceMetrics?
        let tracing: Bool

        /// - Parameters:
        ///   - database: the database. The service closes it.
        ///   - logger: receives each event of the database, at the level of its severity. The system's log is then off for this
        ///     database, so that no line appears twice; a closure in `Options.eventLog` stays.
        ///   - metrics: whether to record metrics with the factory of swift-metrics.
        ///   - tracing: whether to record writes as spans with the tracer of swift-distributed-tracing, while the service runs.
        ///   - grace: how long writes that run, or wait for their turn, may take at shutdown. Then they are rolled back.
        ///   - metricsInterval: how often gauges are set. At least 10 ms.
        public init(
            _ database: SharedDatabase,
            logger: Logger,
            metrics: Bool = true,
            tracing: Bool = true,
            grace: Duration = .seconds(5),
            metricsInterval: Duration = .seconds(10)
        ) {
            self.database = database
            self.logger = logger
            self.grace = grace
            self.tracing = tracing
            self.metrics =
                metrics
                ? ServiceMetrics(database, MetricsSystem.factory, every: max(.milliseconds(10), metricsInterval)) : nil
        }

        /// Runs until graceful shutdown or cancellation, and then closes the database:
        ///
        /// 1. Writes that have not begun throw `SharedDatabaseError.shuttingDown(path:)`. Reads continue.
        /// 2. Writes that run or wait for their turn have the grace to end. Then they are interrupted, and rolled back, and the log
        ///    names the process that was in the way.
        /// 3. A checkpoint is made if one is due.
        /// 4. The database is closed.
        ///
        /// Cancellation does the same, but a group that is cancelled does not wait for other services first.
        ///
        /// - throws: ``SharedDatabaseServiceError/stillOpen(path:reason:)`` when the database cannot be closed.
        public func run() async throws {
            database.reporter.removeSystemLog()
            if tracing { database.tracing.set(ServiceTracer(database)) }
            defer { database.tracing.set(nil) }
            // The sequence exists before any event that this run may cause.
            let events = database.events
            let logging = Task { [logger, metrics] in
                for await event in events {
                    logger.log(event)
                    metrics?.count(event)
                }
            }
            let measuring = metrics.map { metrics in
                metrics.begin()
                return Task { await metrics.run() }
            }
            // Cancellation ends the wait, too.
            try? await gracefulShutdown()
            // What follows must not be cut short by a cancellation.
            let closing = Task { await close() }
            let failure = await closing.value
            measuring?.cancel()
            metrics?.end()
            if let failure {
                // Neither is awaited: an access that does not end may also keep the gauges from being read.
                logging.cancel()
                throw failure
            }
            await measuring?.value
            await logging.value
        }

        private func close() async -> SharedDatabaseServiceError? {
            let metadata: Logger.Metadata = Logger.metadata(path: database.path, author: database.author)
            database.refuseNewWrites()
            logger.info("closing the database: writes that run have \(grace) to end", metadata: metadata)
            let draining = await offThread { [database, grace] in database.drain(within: grace) }
            if let suspension = draining.suspension {
                let obstacle = draining.obstacle.map { ": \($0)" } ?? ""
                logger.warning(
                    "\(database.path): not all writes ended within \(grace)\(obstacle); \(suspension.outcome)",
                    metadata: metadata
                )
            }
            if let failure = draining.checkpointFailure {
                logger.warning("no checkpoint before closing: \(failure)", metadata: metadata)
            }
            // A closure that computes, or a statement of the program that is still alive, may keep the database open.
            let limit = max(grace, .seconds(1))
            let result = await withLimit(limit) { [database] in Result { try database.close() } }
            switch result {
            case .success:
                logger.info("the database is closed", metadata: metadata)
                return nil
            case .failure(let error):
                logger.error("\(database.path): not closed: \(error)", metadata: metadata)
                return .stillOpen(path: database.path, reason: "\(error)")
            case nil:
                let access = draining.suspension.map { ": \($0.outcome)" } ?? ""
                let reason = "an access did not end within \(limit)\(access)"
                logger.error("\(database.path): not closed: \(reason)", metadata: metadata)
                return .stillOpen(path: database.path, reason: reason)
            }
        }
    }
#endif
