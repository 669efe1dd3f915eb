import Foundation
import RoundtableCore
import RoundtableDelivery
import RoundtableDerived
import RoundtableGate

extension SharedDatabase {
    /// Something that happened to a database and that no caller would learn otherwise: a problem, its end, or the progress of work in the
    /// background. See <doc:WhatCanGoWrong#Events>.
    ///
    /// An error that a function of yours throws is no event. A process only receives the events of its own participants.
    public struct Event: Sendable, CustomStringConvertible {
        /// When the event was reported.
        public let date: Date
        /// The path of the database file.
        public let path: String
        /// The name of the participant that reported the event.
        public let author: String
        public let kind: Kind
        public let severity: Severity
        /// The event as one line for a log: the path of the database, the author, what happened, and what to do next. It holds no values of
        /// rows, keys and commands: errors of your own code, such as those of a handler of the outbox, appear with their type alone.
        /// ``kind-swift.property`` has the errors themselves.
        public let description: String

        /// What happened.
        public enum Kind: Sendable {
            /// Another program has changed the schema.
            case schema(SchemaEvent)
            /// A checkpoint of this participant was held up, and the WAL is longer than it should be. Reported once for each read that
            /// holds up checkpoints the most, and again whenever the WAL has doubled in length. The health names the cause: a stuck process
            /// of yours, or a program that does not use Roundtable.
            case checkpointHeldUp(WALHealth)
            /// A checkpoint failed with an error of SQLite's, and the WAL is longer than it should be. Reported once for each result code
            /// until a checkpoint succeeds, and again whenever the WAL has doubled in length. Commits go on, and checkpoints are tried again.
            case checkpointFailed(WALHealth.Failure, WALHealth)
            /// A snapshot of this participant stays at one moment for too long (``SharedDatabase/Options/longReadLimit``).
            case longRead(LongRead)
            /// A derived table is being built, or cannot be.
            case derivedTables(DerivedTableEvent)
            /// A command in the outbox, or the outbox itself, has a problem. Only the owner reports it.
            case outbox(OutboxEvent)
            /// A snapshot file is not up to date, or is so again.
            case publishing(PublishingEvent)
            /// Observers are not notified, or are notified again.
            case observation(ObservationEvent)
            /// A worker of a queue of jobs cannot use the database, or can again.
            case worker(WorkerEvent)
            /// Fair turns are not available, or are available again.
            case coordination(CoordinationEvent)
            /// A suspension has interrupted an access, or could not release a lock.
            case suspension(SuspensionEvent)
            /// The consumer was too slow: this number of events before the next one is missing. The newest are kept.
            case dropped(count: Int)
        }

        /// - returns: nil for an event of a feature that this does not know, which is a defect.
        package init?(_ stamped: StampedEvent, path: String, author: String) {
            guard let kind = Kind(stamped.event) else {
                assertionFailure("no kind of event has \(type(of: stamped.event))")
                return nil
            }
            date = stamped.date
            self.path = path
            self.author = author
            self.kind = kind
            severity = stamped.event.severity
            description = stamped.event.line(path: path, author: author)
        }
    }
}

extension SharedDatabase.Event.Kind {
    fileprivate init?(_ event: any ReportedEvent) {
        switch event {
        case let event as SchemaEvent: self = .schema(event)
        case CheckpointEvent.heldUp(let health): self = .checkpointHeldUp(health)
        case CheckpointEvent.failed(let failure, let health): self = .checkpointFailed(failure, health)
        case let event as LongRead: self = .longRead(event)
        case let event as DerivedTableEvent: self = .derivedTables(event)
        case let event as OutboxEvent: self = .outbox(event)
        case let event as PublishingEvent: self = .publishing(event)
        case let event as ObservationEvent: self = .observation(event)
        case let event as WorkerEvent: self = .worker(event)
        case let event as CoordinationEvent: self = .coordination(event)
        case let event as SuspensionEvent: self = .suspension(event)
        case let event as DroppedEvents: self = .dropped(count: event.count)
        default: return nil
        }
    }
}

extension SharedDatabase.Event {
    /// The name of the kind, such as `outbox`: the category of the event in Apple's log, and a word in each line on Linux.
    public var category: String {
        switch kind {
        case .schema: "schema"
        case .checkpointHeldUp, .checkpointFailed: "checkpoint"
        case .longRead: "long-read"
        case .derivedTables: "derived-tables"
        case .outbox: "outbox"
        case .publishing: "publishing"
        case .observation: "observation"
        case .worker: "worker"
        case .coordination: "coordination"
        case .suspension: "suspension"
        case .dropped: "dropped"
        }
    }
}
