#if Service
    import Logging
    import Roundtable

    /// Writes events to a logger.
    struct EventLog: Sendable {
        let logger: Logger

        init(_ logger: Logger) { self.logger = logger }

        func note(_ event: SharedDatabase.Event) {
            var metadata = Self.metadata(path: event.path, author: event.author)
            metadata["roundtable.event"] = "\(event.category)"
            logger.log(level: Self.level(event.severity), "\(event.description)", metadata: metadata)
        }

        static func level(_ severity: SharedDatabase.Severity) -> Logger.Level {
            switch severity {
            case .info: .info
            case .notice: .notice
            case .warning: .warning
            case .error: .error
            }
        }

        static func metadata(path: String, author: String) -> Logger.Metadata {
            ["roundtable.path": "\(path)", "roundtable.author": "\(author)"]
        }
    }
#endif
