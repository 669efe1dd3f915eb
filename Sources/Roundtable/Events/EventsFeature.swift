import RoundtableCore

/// The consumers that the options name. It comes first among the features, so that they receive the events of opening.
final class EventsFeature: DatabaseFeature {
    private static let capacity = 256

    init(_ opening: inout DatabaseOpening) {
        let reporter = opening.reporter
        let (path, author) = (reporter.path, reporter.author)
        func delivery(_ label: String, _ body: @escaping @Sendable (SharedDatabase.Event) -> Void) -> EventDelivery {
            EventDelivery(label, capacity: Self.capacity) { stamped in
                if let event = SharedDatabase.Event(stamped, path: path, author: author) { body(event) }
            }
        }
        // A log of its own queue, so that a slow closure of the program does not keep events from the log.
        switch opening.options.effectiveLog {
        case .system: reporter.addSystemLog(delivery("roundtable.log", SystemEventLog.write))
        case .closure(let body): reporter.add(delivery("roundtable.log", body))
        case .off: break
        }
        if let onEvent = opening.options.onEvent { reporter.add(delivery("roundtable.events", onEvent)) }
    }
}
