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

/// What a state can become, and by what (the table of the rules A2).
package enum JobTransition: String, Sendable, CaseIterable {
    case promote, claim, complete, postpone, bury, release, lose, cancel, retry

    /// The states in which a job must be.
    package var sources: Set<JobState> {
        switch self {
        case .promote: [.scheduled]
        case .claim: [.waiting]
        case .complete, .postpone, .bury, .release, .lose: [.running]
        case .cancel: [.scheduled, .waiting, .running]
        case .retry: [.dead, .cancelled]
        }
    }

    /// The state that the job gets, unless it must give way to another with the same key (rule A9).
    package var target: JobState {
        switch self {
        case .promote, .release, .lose, .retry: .waiting
        case .claim: .running
        case .complete: .done
        case .postpone: .scheduled
        case .bury: .dead
        case .cancel: .cancelled
        }
    }
}

extension JobState {
    var isFinished: Bool { [.done, .dead, .cancelled].contains(self) }
}
