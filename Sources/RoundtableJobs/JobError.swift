import Foundation

/// An error of a job queue. Errors of SQLite are GRDB's `DatabaseError`.
public enum JobError: Error, Sendable, Equatable {
    /// The attempt has lost its job, so it can neither complete it nor fail it. The transaction must be rolled back.
    case attemptLost(queue: String?, job: Int64, attempt: Int64, reason: Reason)
    /// The payload of a job that is to be added cannot be encoded. Nothing was added. Often, it contains NaN or infinity, which JSON does
    /// not have.
    case unencodable(queue: String, reason: String)
    /// A key of a job contains a NUL, at which the database's texts end. Nothing was added.
    case unusableKey(queue: String, key: String)
    /// A stored payload cannot be decoded: another version of the program, or another program, has stored it.
    case undecodable(queue: String, job: Int64, reason: String)

    /// Why an attempt has lost its job.
    public enum Reason: Sendable, Equatable {
        /// The lease was over, or the process counted as dead: the job waits again, or a later attempt has it. The process was frozen, or
        /// could not write, for longer than the lease.
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
            return "\(name): attempt \(attempt) has lost it: \(cause). \(Self.advice(reason))"
        case .unencodable(let queue, let reason):
            return """
                '\(queue)': the payload of a job cannot be encoded: \(reason). Nothing was added. Correct its encode(to:), or leave the value \
                out
                """
        case .unusableKey(let queue, let key):
            return """
                '\(queue)': the key \(key.debugDescription) of a job contains a NUL, so it could not be told from its beginning. Nothing was added. \
                Make the key without it
                """
        case .undecodable(let queue, let job, let reason):
            return """
                job \(job) of '\(queue)': the payload cannot be decoded: \(reason). Decode the forms of other versions in init(from:); until \
                then, each attempt fails, and the last one leaves the job dead
                """
        }
    }

    public var errorDescription: String? {
        switch self {
        case .attemptLost: "The task was taken over or removed."
        case .unencodable, .unusableKey: "The task cannot be stored."
        case .undecodable: "The task cannot be read."
        }
    }

    private static func advice(_ reason: Reason) -> String {
        let now = "Roll this transaction back and end the handler"
        guard case .takenBack = reason else { return now }
        return now + "; if it needs longer than its lease without being able to write, give the queue a longer lease"
    }
}

/// The error that a handler throws to refuse a job for good, because no further attempt can succeed: the job becomes ``JobState/dead`` at
/// once.
///
/// The reason is all that is kept, in ``JobRecord/error`` beside the job's queue and number, so it says what is wrong and what to do.
public struct JobRefusal: Error, Hashable, Sendable {
    public var reason: String

    public init(_ reason: String) { self.reason = reason }
}

extension JobRefusal: CustomStringConvertible, LocalizedError {
    public var description: String { reason }
    public var errorDescription: String? { reason }
}
