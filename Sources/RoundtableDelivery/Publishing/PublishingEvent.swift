import RoundtableCore
import RoundtableFiles

/// An event of a ``SnapshotPublisher``.
public enum PublishingEvent: Sendable {
    /// The snapshot file at `path` is not up to date: the closure threw this error, or the file cannot be written
    /// (``SnapshotFileError``). The file stays as it is, and the publisher tries again, at most a minute later. Each attempt that fails is
    /// reported.
    case failed(path: String, any Error)
    /// The snapshot file at `path` is up to date again.
    case recovered(path: String)
}

extension PublishingEvent: ReportedEvent {
    package var severity: SharedDatabase.Severity {
        switch self {
        case .failed: .error
        case .recovered: .notice
        }
    }

    package var text: String {
        switch self {
        case .failed(let path, let error):
            // Errors of the file begin with its path.
            """
            the snapshot file \(path) is not up to date, and is tried again: \
            \(LoggedText.of(error).replacing("\(path): ", with: ""))
            """
        case .recovered(let path): "the snapshot file \(path) is up to date again"
        }
    }
}
