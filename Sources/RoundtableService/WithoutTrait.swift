// Without the package trait, these names say why the others are missing. Their initializers take what the real ones take, because the
// compiler only reports that a type is unavailable after it has found the initializer.

#if !Service
    import Roundtable
    import RoundtableJobs

    /// Needs the package trait `Service`.
    @available(*, unavailable, message: "RoundtableService needs its trait: .package(…, traits: [\"Service\"])")
    public struct SharedDatabaseService {
        public init<Logger>(
            _ database: SharedDatabase,
            logger: Logger,
            metrics: Bool = true,
            tracing: Bool = true,
            grace: Duration = .zero,
            metricsInterval: Duration = .zero
        ) {}
    }

    /// Needs the package trait `Service`.
    @available(*, unavailable, message: "RoundtableService needs its trait: .package(…, traits: [\"Service\"])")
    public struct JobWorkerService<Payload: Codable & Sendable> {
        public init<Logger>(
            _ queue: JobQueue<Payload>,
            in database: SharedDatabase,
            workers: Int = 1,
            logger: Logger,
            metrics: Bool = true,
            tracing: Bool = true,
            grace: Duration = .zero,
            cancelGrace: Duration = .zero,
            metricsInterval: Duration = .zero,
            handler: @escaping @Sendable (Job<Payload>) async throws -> Void
        ) {}
    }
#endif
