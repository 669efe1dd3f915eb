import RoundtableKernel

/// The result of suspending a database. Times are in seconds in JSON.
public struct SuspensionReport: Sendable, Equatable, Codable {
    public enum Outcome: Sendable, Equatable, Codable {
        /// The database holds no lock for which the system kills the process. The running access has finished.
        case released
        /// The database holds no such lock. The running access was interrupted at the deadline, and rolled back.
        case rolledBack(Access)
        /// The database holds no such lock. The running access was interrupted at the deadline. It was not a single transaction,
        /// and its earlier commits stay.
        case interrupted(Access)
        /// A lock is still held at the deadline: by a closure that computes between two statements, or by SQLite that waits for
        /// the disk. The transaction will be rolled back at its next statement.
        case held(Access)
        /// The database is not suspended until these end: protected accesses, or a write to which the system gave more time.
        case protected([String])
        /// The database was resumed meanwhile.
        case resumed
    }

    /// An access that ran when the database was to be suspended.
    public struct Access: Sendable, Equatable, Codable {
        public enum Kind: String, Sendable, Codable {
            /// `write` stands also for the turn of a raw handle.
            case write, opening, closing, checkpoint, read
        }
        public let kind: Kind
        /// Where the access began, as `File.swift:12`; nil when that is not known.
        public let callSite: String?
        /// How long the access has been running.
        public var duration: Duration { Duration(inSeconds: durationSeconds) }
        let durationSeconds: Double

        package init(kind: Kind, callSite: String?, duration: Duration) {
            self.kind = kind
            self.callSite = callSite
            durationSeconds = duration.inSeconds
        }

        enum CodingKeys: String, CodingKey {
            case kind
            case callSite = "call_site"
            case durationSeconds = "duration_s"
        }
    }

    /// The path of the database file.
    public let path: String
    public let outcome: Outcome
    /// How long suspending took.
    public var duration: Duration { Duration(inSeconds: durationSeconds) }
    let durationSeconds: Double

    package init(path: String, outcome: Outcome, duration: Duration) {
        self.path = path
        self.outcome = outcome
        durationSeconds = duration.inSeconds
    }

    enum CodingKeys: String, CodingKey {
        case path, outcome
        case durationSeconds = "duration_s"
    }

    /// Whether the database holds no lock for which the system kills the process.
    public var isReleased: Bool {
        switch outcome {
        case .released, .rolledBack, .interrupted: true
        case .held, .protected, .resumed: false
        }
    }
}

extension SuspensionReport: CustomStringConvertible {
    public var description: String { "\(path): \(outcome)" }
}

extension SuspensionReport.Outcome: CustomStringConvertible {
    public var description: String {
        switch self {
        case .released: "released"
        case .rolledBack(let access): "rolled back: \(access)"
        case .interrupted(let access): "interrupted: \(access)"
        case .held(let access): "still held by \(access)"
        case .protected(let names): "continues for \(names.joined(separator: ", "))"
        case .resumed: "resumed meanwhile"
        }
    }
}

extension SuspensionReport.Access: CustomStringConvertible {
    public var description: String {
        let milliseconds = Int(durationSeconds * 1000)
        return
            "\(kind == .opening ? "an" : "a") \(kind.rawValue)\(callSite.map { " that began at \($0)" } ?? ""), running for \(milliseconds) ms"
    }
}
