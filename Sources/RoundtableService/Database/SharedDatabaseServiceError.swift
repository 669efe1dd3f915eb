#if Service
    import Foundation

    /// The errors of ``SharedDatabaseService``.
    public enum SharedDatabaseServiceError: Error, Equatable, Sendable, CustomStringConvertible, LocalizedError {
        /// The database could not be closed, because an access does not end. When the process ends, the system releases its locks, and
        /// the next writer rolls an unfinished transaction back.
        case stillOpen(path: String, reason: String)
        /// The database was closed while workers of a queue still used it. A job that ran is attempted again.
        case closedBeforeWorkers(path: String, queue: String)

        public var description: String {
            switch self {
            case .stillOpen(let path, let reason):
                """
                \(path): not closed at shutdown: \(reason). Nothing that was acknowledged is lost. End the process; shorten the access, or \
                give it more time
                """
            case .closedBeforeWorkers(let path, let queue):
                """
                \(path): closed before the workers of queue '\(queue)' had ended. A job that ran is attempted again. Put the \
                SharedDatabaseService before the JobWorkerService in the services of the group, which ends them in reverse order
                """
            }
        }

        public var errorDescription: String? { "The database was not closed in order." }
    }
#endif
