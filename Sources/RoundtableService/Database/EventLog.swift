#if Service
    import Logging
    import Roundtable

    extension Logger {
        func log(_ event: SharedDatabase.Event) {
            let level: Level =
                switch event.severity {
                case .info: .info
                case .notice: .notice
                case .warning: .warning
                case .error: .error
                }
            var metadata = Self.metadata(path: event.path, author: event.author)
            metadata["roundtable.event"] = "\(event.category)"
            log(level: level, "\(event.description)", metadata: metadata)
        }

        static func metadata(path: String, author: String) -> Metadata {
            ["roundtable.path": "\(path)", "roundtable.author": "\(author)"]
        }
    }
#endif
