/// The outcome of a command.
public enum OutboxOutcome: Hashable, Sendable {
    /// The command is applied: its transaction is committed.
    case applied
    /// The command could not be applied, and is kept as a `DeadLetter` with this reason and this error.
    case setAside(SetAsideReason, error: String)
    /// The command was dropped, and is not applied: see `DatabaseOutbox.drop(_:)`, `roundtable outbox PATH drop`.
    case dropped
    /// No owner has answered: none runs, or none has reached the command yet.
    case waiting
    /// No owner has answered, and there is no database at this path, which the outbox lies beside. The command is kept, and is applied when
    /// a program has created the database and opens it with handlers. If no program will, the path is wrong.
    case noDatabase(path: String)

    /// Why a command is set aside.
    public enum SetAsideReason: String, Sendable, Codable, CaseIterable {
        /// The command was tried as often as the owner's `OutboxHandlers.Retries.maximumAttempts` says.
        case failed
        /// The owner has no handler for the name and version. An owner that has one applies the command when it starts.
        case unknown
        /// The payload cannot be decoded as the handler's type.
        case undecodable
        /// The handler threw an `OutboxRefusal`.
        case refused
    }
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
            waiting: there is no database at \(path). Start the program that makes it and opens it with handlers (Options.outbox); or check the \
            path that the outbox was opened with
            """
        }
    }
}
