#if Service
    import Logging
    import RoundtableCore
    import RoundtableJobs

    /// The lines of the workers of one queue.
    struct JobLog: Sendable {
        private let logger: Logger
        private let metadata: Logger.Metadata

        init(_ logger: Logger, queue: String, path: String) {
            self.logger = logger
            metadata = ["roundtable.queue": "\(queue)", "roundtable.path": "\(path)"]
        }

        func write(_ level: Logger.Level, _ text: String) {
            logger.log(level: level, "\(text)", metadata: metadata)
        }

        /// Writes a line, unless the job was completed. Errors may hold data of the job: the line has their kind alone.
        func write(_ report: AttemptReport) {
            let attempt = "attempt \(report.attempt) of job \(report.job)"
            let error = report.error.map { " (\(Self.kind(of: $0)))" } ?? ""
            let (level, text): (Logger.Level, String)
            switch report.end {
            case .completed: return
            case .failed:
                (level, text) = (
                    .notice,
                    "\(attempt) failed\(error): the job is attempted again after a pause, and its row has the error"
                )
            case .dead:
                (level, text) = (.error, "\(attempt) failed\(error): the job is dead, and deadJobs(in:) has its error")
            case .released:
                (level, text) = (.info, "\(attempt) ended with the worker\(error): the job waits for another one")
            case .lost: (level, text) = (.warning, "\(attempt) ended\(error) without its job: another attempt has it")
            case .workerLost(let reason, isDead: false):
                (level, text) = (.warning, "\(attempt) is over: \(reason). The job waits again")
            case .workerLost(let reason, isDead: true):
                (level, text) = (
                    .error, "\(attempt) is over: \(reason). The job is dead: look for what ends its workers"
                )
            case .notStored(let reason):
                let cause = "\(reason)".withoutFullStop
                (level, text) = (
                    .error, "\(attempt) ended\(error), which could not be stored: \(cause). The job comes back"
                )
            case .abandoned(isReleased: true):
                (level, text) = (
                    .warning,
                    "\(attempt) did not end after its cancellation: the job was released, and the handler runs on"
                )
            case .abandoned(isReleased: false):
                (level, text) = (
                    .error,
                    """
                    \(attempt) did not end after its cancellation, and its job could not be released in time, perhaps because the handler \
                    holds the write lock: the job comes back when this process ends
                    """
                )
            }
            var metadata = metadata
            metadata["roundtable.job"] = "\(report.job)"
            metadata["roundtable.attempt"] = "\(report.attempt)"
            logger.log(level: level, "\(text)", metadata: metadata)
        }

        private static func kind(of error: any Error) -> String {
            guard case JobError.undecodable = error else { return "\(type(of: error))" }
            return "the payload cannot be decoded"
        }
    }
#endif
