import Foundation

/// An event of workers that run in the background of a database, such as those of a queue of jobs.
public enum WorkerEvent: Sendable {
    /// A worker cannot read or write the database, because of this error, which has lasted a second, such as a full disk. It tries again, at
    /// least every 10 s. `worker` says which one, such as *the worker of queue 'mail'*.
    case interrupted(worker: String, any Error)
    /// The worker can read and write again. It took this long.
    case resumed(worker: String, after: Duration)
}

extension WorkerEvent: ReportedEvent {
    package var severity: SharedDatabase.Severity {
        switch self {
        case .interrupted: .error
        case .resumed: .notice
        }
    }

    package var text: String {
        switch self {
        case .interrupted(let worker, let error):
            "\(worker) cannot go on: \(LoggedText.of(error)). It tries again, at least every 10 s: remove the cause"
        case .resumed(let worker, let time): "\(worker) goes on, after \(time.seconds)"
        }
    }
}
