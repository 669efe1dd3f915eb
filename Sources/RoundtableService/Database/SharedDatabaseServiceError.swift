#if Service
    import Foundation

    /// The errors of ``SharedDatabaseService``.
    public enum SharedDatabaseServiceError: Error, Equatable, Sendable, CustomStringConvertible, LocalizedError {
        /// The database could not be closed, because an access does not end. When the process ends, the system releases its locks, and
        /// the next writer rolls an unfinished transaction back.
        case stillOpen(path: String, reason: String)

        public var description: String {
            switch self {
            case .stillOpen(let path, let reason):
                """
                \(path): not closed at shutdown: \(reason). Nothing that was acknowledged is lost. End the process; shorten the access, or \
                give it more time
                """
            }
        }

        public var errorDescription: String? { description }
    }
#endif
