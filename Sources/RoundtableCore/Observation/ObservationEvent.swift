import Foundation

/// An event of the observation of commits: of ``SharedDatabase/changes(in:)``, and of GRDB's observations and transaction observers.
public enum ObservationEvent: Sendable {
    /// Observers are not notified, because of this error, which has lasted a second. Roundtable tries again, at least every 30 s. No
    /// change is lost: observers are notified of what they have missed once it succeeds.
    case interrupted(any Error)
    /// Observers are notified again. It took this long.
    case resumed(after: Duration)
}

extension ObservationEvent: ReportedEvent {
    package var severity: SharedDatabase.Severity {
        switch self {
        case .interrupted: .error
        case .resumed: .notice
        }
    }

    package var text: String {
        switch self {
        case .interrupted(let error):
            """
            observers are not notified of changes: \(LoggedText.of(error)). It is tried again, at least every 30 s, and nothing is lost: remove \
            the cause
            """
        case .resumed(let time): "observers are notified of changes again, after \(time.seconds)"
        }
    }
}

/// What observing does, can fail in, and tries again.
enum ObservationStep: Hashable, Sendable {
    /// Opening the observation connection, and restarting the observations on it.
    case opening
    /// Following the commits for the observers of the writer connection.
    case following
    /// Notifying the observers of the observation connection, or of the writer connection.
    case notifying(onWriter: Bool)
}
