/// What suspending a database has come to.
public struct Suspension: Sendable, Equatable, Codable {
    public enum Outcome: Sendable, Equatable, Codable {
        /// The database holds no lock that matters to the system. What ran has finished.
        case released
        /// The same, but what ran was interrupted at the deadline, and rolled back.
        case rolledBack(Access)
        /// No lock is held; what ran was interrupted at the deadline. It was no single transaction: what it had committed before stays.
        case interrupted(Access)
        /// Still held at the deadline: by a closure that computes between two statements, or by SQLite that waits for the disk. The
        /// transaction will be rolled back at its next statement.
        case held(Access)
        /// The database is not suspended until these end: protected accesses, or a write that the system gave more time.
        case protected([String])
        /// It was resumed meanwhile.
        case resumed
    }

    /// What ran when the database was to be suspended.
    public struct Access: Sendable, Equatable, Codable {
        public enum Kind: String, Sendable, Codable {
            case write, opening, closing, checkpoint, read
            /// Of a raw handle.
            case turn
        }
        public let kind: Kind
        /// Where it began, as `File.swift:12`; nil when that is not known.
        public let callSite: String?
        /// How long it has been running, in seconds.
        public let duration: Double

        public init(kind: Kind, callSite: String?, duration: Double) {
            self.kind = kind
            self.callSite = callSite
            self.duration = duration
        }
    }

    /// The database.
    public let path: String
    public let outcome: Outcome
    /// How long it took, in seconds.
    public let duration: Double

    public init(path: String, outcome: Outcome, duration: Double) {
        self.path = path
        self.outcome = outcome
        self.duration = duration
    }

    /// Whether the system finds no lock of this database that it kills for.
    public var isReleased: Bool {
        switch outcome {
        case .released, .rolledBack, .interrupted: true
        case .held, .protected, .resumed: false
        }
    }
}

extension Suspension: CustomStringConvertible {
    public var description: String { "\(path): \(outcome)" }
}

extension Suspension.Outcome: CustomStringConvertible {
    public var description: String {
        switch self {
        case .released: "released"
        case .rolledBack(let access): "rolled back: \(access)"
        case .interrupted(let access): "interrupted: \(access)"
        case .held(let access): "still held by \(access)"
        case .protected(let names): "goes on for \(names.joined(separator: ", "))"
        case .resumed: "resumed meanwhile"
        }
    }
}

extension Suspension.Access: CustomStringConvertible {
    public var description: String {
        let milliseconds = Int(duration * 1000)
        return
            "\(kind == .opening ? "an" : "a") \(kind.rawValue)\(callSite.map { " that began at \($0)" } ?? ""), running for \(milliseconds) ms"
    }
}
