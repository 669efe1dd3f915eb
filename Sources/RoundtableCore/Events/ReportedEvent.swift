import Foundation
import RoundtableKernel

/// What features report to an ``EventReporter``. The core knows this role; the target `Roundtable` knows the types that have it, and makes
/// a typed event of each.
package protocol ReportedEvent: Sendable {
    var severity: SharedDatabase.Severity { get }

    /// What happened, and what to do next, in one line, without the path of the database. It is written to logs, so it holds no values
    /// of the user's rows, keys and commands: errors become text by ``LoggedText``.
    var text: String { get }

    /// While an event waits for a consumer, a newer one with the same key replaces it. nil: no event replaces it.
    var replacementKey: String? { get }
}

extension ReportedEvent {
    package var replacementKey: String? { nil }

    /// The event as one line. Errors name the path, too, which is not said twice.
    package func line(path: String, author: String) -> String {
        let text = text.replacing("\(path): ", with: "")
        return "\(path), '\(author)': \(text)".replacing("\n", with: " ").withVisibleControls
    }
}

/// An event, and when it was reported.
package struct StampedEvent: Sendable {
    package let date: Date
    package let event: any ReportedEvent
}

/// A consumer was too slow, and did not receive some events.
package struct DroppedEvents: ReportedEvent {
    package let count: Int

    package var severity: SharedDatabase.Severity { .warning }

    package var text: String {
        "\(count.of("event")) left out, because a consumer was too slow. The newest are kept: let the consumer return sooner"
    }
}
