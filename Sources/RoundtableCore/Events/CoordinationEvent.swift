import RoundtableKernel
import Synchronization

/// An event of the coordination between participants.
public enum CoordinationEvent: Sendable, Equatable {
    /// This participant takes no fair turns, for this reason. SQLite's locks exclude other writers, so nothing is lost, but the participant
    /// bypasses the queue. It tries again with its writes.
    case unavailable(reason: String)
    /// This participant takes fair turns again.
    case restored
    /// A file of the database is not in its place any more. Every access fails from now on, and observations, publishers and the owner of the
    /// outbox have ended: ``SharedDatabaseError/fileLost(path:_:)``.
    case fileLost(path: String, LostFile)
}

extension CoordinationEvent: ReportedEvent {
    package var severity: SharedDatabase.Severity {
        switch self {
        case .unavailable: .warning
        case .restored: .notice
        case .fileLost: .error
        }
    }

    package var text: String {
        switch self {
        case .unavailable(let reason):
            """
            writes without fair turns: \(reason.withVisibleControls). Nothing is lost, but others may wait for long. 'roundtable doctor' says \
            what to do; the writes try again
            """
        case .restored: "takes fair turns again"
        case .fileLost(let path, let file): SharedDatabaseError.fileLost(path: path, file).description
        }
    }

    /// Reports why a participant that writes has no seat, each reason once, and when it has one again. A read-only participant takes no
    /// turns.
    static func follow(_ seat: Seat, _ role: SharedDatabase.Role, _ reporter: EventReporter) {
        guard role == .readWrite else { return }
        let reported = Reported()
        seat.follow { unusable in
            if let event = reported.event(unusable) { reporter.report(event) }
        }
    }

    private final class Reported: Sendable {
        private let reason = Mutex<ControlBlock.Unusable?>(nil)

        func event(_ unusable: ControlBlock.Unusable?) -> CoordinationEvent? {
            let isNews = reason.withLock { reason in
                defer { reason = unusable }
                return reason != unusable
            }
            guard isNews else { return nil }
            return unusable.map { .unavailable(reason: $0.description) } ?? .restored
        }
    }
}
