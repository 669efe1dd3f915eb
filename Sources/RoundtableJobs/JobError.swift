import Foundation

/// An error of a job queue. Errors of SQLite are GRDB's `DatabaseError`.
public enum JobError: Error, Sendable, Equatable {
    /// The attempt has lost its job, so it can neither complete it nor fail it. The transaction must be rolled back.
    case attemptLost(queue: String?, job: Int64, attempt: Int64, reason: Reason)
    /// The payload cannot be encoded, or a stored payload cannot be decoded.
    case payload(queue: String, job: Int64?, reason: String)

    /// Why an attempt has lost its job.
    public enum Reason: Sendable, Equatable {
        /// The lease was over, or the process counted as dead: the job waits again, or a later attempt has it.
        case takenBack(laterAttempt: Int64?)
        case cancelled
        /// The job has no row any more.
        case removed
    }
}

extension JobError: CustomStringConvertible, LocalizedError {
    public var description: String {
        switch self {
        case .attemptLost(let queue, let job, let attempt, let reason):
            let name = "job \(job)" + (queue.map { " of '\($0)'" } ?? "")
            let cause =
                switch reason {
                case .takenBack(nil): "its lease was over, or its process counted as dead, and the job was taken back"
                case .takenBack(let later?): "its lease was over, and attempt \(later) has taken its place"
                case .cancelled: "the job was cancelled"
                case .removed: "the job was removed"
                }
            return "\(name): attempt \(attempt) has lost it: \(cause). Roll this transaction back and end the handler; "
                + "if it needs longer than its lease without being able to write, give the queue a longer lease"
        case .payload(let queue, let job, let reason):
            return "job \(job.map(String.init) ?? "to be added") of '\(queue)': the payload is no \(reason). "
                + "Decode older forms in init(from:)"
        }
    }

    public var errorDescription: String? { description }
}

/// A handler throws this if no further attempt can succeed: the job becomes ``JobState/dead`` at once.
public struct JobRefusal: Error, Sendable, Equatable, CustomStringConvertible {
    /// The reason, which ``JobRecord/error`` shows.
    public var reason: String
    public init(_ reason: String) { self.reason = reason }
    public var description: String { reason }
}
