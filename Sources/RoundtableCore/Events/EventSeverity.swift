/// How serious an event of a database is: see `SharedDatabase.Event`. Later cases are more serious.
public enum EventSeverity: String, Sendable, CaseIterable, Codable, Comparable {
    /// The normal course of work, such as the progress of a long operation.
    case info
    /// Something that users may want to know, such as the end of a problem.
    case notice
    /// A problem that Roundtable works around, or that may become serious.
    case warning
    /// Something failed, and stays so until a person or a program acts, or a retry succeeds.
    case error

    private var rank: Int {
        switch self {
        case .info: 0
        case .notice: 1
        case .warning: 2
        case .error: 3
        }
    }

    public static func < (a: Self, b: Self) -> Bool { a.rank < b.rank }
}
