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
}

extension OutboxOutcome: CustomStringConvertible {
    public var description: String {
        switch self {
        case .applied: "applied"
        case .setAside(let reason, let error): "set aside (\(reason)): \(error)"
        case .dropped: "dropped"
        case .waiting: "waiting"
        }
    }
}
