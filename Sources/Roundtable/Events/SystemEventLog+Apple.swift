#if canImport(os)
    import RoundtableCore
    import os

    /// Apple's unified log.
    enum SystemEventLog {
        static let subsystem = "Roundtable"

        /// The description of an event holds no data of users, so it is public.
        static func write(_ event: SharedDatabase.Event) {
            let logger = Logger(subsystem: subsystem, category: event.category)
            let line = event.description
            switch event.severity {
            case .info: logger.info("\(line, privacy: .public)")
            case .notice: logger.notice("\(line, privacy: .public)")
            case .warning: logger.warning("\(line, privacy: .public)")
            case .error: logger.error("\(line, privacy: .public)")
            }
        }
    }
#endif
