import Foundation

/// What has become of a command.
public enum OutboxOutcome: Hashable, Sendable {
    /// It is applied: its transaction is committed.
    case applied
    /// It could not be applied, and is kept as a ``DeadLetter``, for this reason and with this error.
    case setAside(DeadLetter.Reason, error: String)
    /// Somebody has decided that it is not to be applied: ``SharedDatabase/dropDeadLetter(_:)``, `roundtable outbox PATH drop`.
    case dropped
    /// Nobody has said: no owner runs, or it has not come to it yet.
    case waiting
    /// Nobody has said, and there is no database at this path, which the outbox lies beside. The command is kept, and applied when a program has
    /// made the database and opens it with handlers. Where none will, the path is wrong.
    case noDatabase(path: String)
}

extension OutboxOutcome: CustomStringConvertible {
    public var description: String {
        switch self {
        case .applied: "applied"
        case .setAside(let reason, let error): "set aside (\(reason)): \(error)"
        case .dropped: "dropped"
        case .waiting: "waiting"
        case .noDatabase(let path):
            """
            waiting: there is no database at \(path). Start the program that makes it and opens it with handlers (Options.outbox); or look at the \
            path that the outbox was opened with
            """
        }
    }
}
