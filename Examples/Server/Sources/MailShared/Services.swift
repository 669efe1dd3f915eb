import Foundation
import GRDB
import Logging
import Roundtable
import RoundtableJobs
import ServiceLifecycle

/// Keeps a database open until the group shuts down, and then closes it. Put it first into the group: services end in the opposite order.
public struct SharedDatabaseService: Service {
    private let database: SharedDatabase
    private let logger: Logger

    public init(_ database: SharedDatabase, logger: Logger) {
        self.database = database
        self.logger = logger
    }

    public func run() async throws {
        // Its error says that the task was cancelled: the group ends because another service has failed.
        try? await gracefulShutdown()
        try database.close()
        logger.info("the database is closed")
    }
}

/// Runs the jobs of a queue until the group shuts down. What a handler gives up then waits for another worker.
public struct JobWorkerService<Payload: Codable & Sendable>: Service {
    private let run: @Sendable () async throws -> Void

    public init(
        _ queue: JobQueue<Payload>,
        in database: SharedDatabase,
        workers: Int = 1,
        logger: Logger,
        handler: @escaping @Sendable (Job<Payload>) async throws -> Void
    ) {
        run = {
            try await queue.run(in: database, workers: workers) { job in
                do {
                    try await handler(job)
                } catch {
                    logger.notice("attempt \(job.attempt) of job \(job.id) did not succeed: \(error)")
                    throw error
                }
            }
        }
    }

    public func run() async throws {
        try await cancelWhenGracefulShutdown(run)
    }
}

/// Whether a process can work with its database.
public struct DatabaseHealth: Codable, Sendable {
    public var isReady: Bool
    /// Why it cannot.
    public var reasons: [String]
}

extension SharedDatabase {
    public func health() async -> DatabaseHealth {
        do {
            let failure = try walHealth().failure
            return DatabaseHealth(isReady: true, reasons: failure.map { ["\($0)"] } ?? [])
        } catch {
            return DatabaseHealth(isReady: false, reasons: ["\(error)"])
        }
    }
}
