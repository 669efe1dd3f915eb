import RoundtableCore

extension SharedDatabase.Options {
    /// Called with each event of the database, the events of opening included: on a system thread, one event after the other, in the order
    /// in which they were reported. nil, the default: it is not called.
    ///
    /// It may use, suspend and close the database. While it runs, 256 events wait; when there are more, the newest are kept, and
    /// ``SharedDatabase/Event/Kind-swift.enum/dropped(count:)`` says how many are missing. Events that were reported before the database
    /// was closed are delivered soon after.
    public var onEvent: (@Sendable (SharedDatabase.Event) -> Void)? {
        get { eventOptions.onEvent }
        set { eventOptions.onEvent = newValue }
    }

    /// Where events are logged.
    public var eventLog: SharedDatabase.EventLog {
        get { eventOptions.log ?? .system }
        set { eventOptions.log = newValue }
    }

    private struct EventOptions: Sendable {
        var onEvent: (@Sendable (SharedDatabase.Event) -> Void)?
        /// nil: the program has not set it.
        var log: SharedDatabase.EventLog?
    }

    /// Where events are logged in this process.
    var effectiveLog: SharedDatabase.EventLog { eventOptions.log ?? (DefaultLog.isOff ? .off : .system) }

    private var eventOptions: EventOptions {
        get { features[EventOptions.self] ?? EventOptions() }
        set { features[EventOptions.self] = newValue }
    }
}

extension SharedDatabase {
    /// Where the events of a database are logged, whether or not the program consumes them in another way. See <doc:WhatCanGoWrong#The-log>.
    public enum EventLog: Sendable {
        /// The system's log.
        ///
        /// On Apple's systems, this is an `os.Logger` with the subsystem `Roundtable` and the event's ``Event/category``; it gets all
        /// events. Elsewhere, this is standard error, which gets one line for each event of the severities `warning` and `error`. There, at
        /// most ten lines of one category, severity and database are written at once, and then one a minute; the next line says how many
        /// were left out.
        case system
        /// Events are not logged.
        case off
        /// Calls a closure with each event, as ``Options/onEvent`` is called: for a program that has a log of its own. ``Event/description``
        /// is a line that holds no data of the database's.
        case closure(@Sendable (Event) -> Void)
    }
}
