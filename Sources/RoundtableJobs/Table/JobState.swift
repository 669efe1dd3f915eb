/// The state of a job. See <doc:Jobs>.
public enum JobState: String, Sendable, CaseIterable, Codable {
    /// The job waits for its time, or for its next attempt.
    case scheduled
    /// The job can be claimed now.
    case waiting
    /// A worker has claimed the job.
    case running
    /// The job was completed.
    case done
    /// The job has failed as often as its queue allows, or its handler refused it. ``JobRecord/error`` has the last error.
    case dead
    /// The job was cancelled, or replaced by a job with the same key.
    case cancelled
}

extension JobState {
    var isFinished: Bool { [.done, .dead, .cancelled].contains(self) }
}
