import RoundtableKernel

/// What became of an attempt, for logs and metrics.
package struct AttemptReport: Sendable {
    package enum End: Sendable {
        /// The job is done.
        case completed
        /// The handler threw, and the job is attempted again after a pause.
        case failed
        /// The handler threw, and the job is not attempted any more.
        case dead
        /// The worker stops, and the job waits for another worker.
        case released
        /// The handler did not end after it was cancelled (rule A13). If its job was not released, it comes back with the end of the lease,
        /// or of this process.
        case abandoned(isReleased: Bool)
        /// Another attempt has the job.
        case lost
        /// This worker has ended an attempt of another one, which is lost (rule A7).
        case workerLost(reason: String, isDead: Bool)
        /// The end of the attempt could not be stored, and the job comes back as that of a lost worker.
        case notStored(any Error)
    }

    package let job: Int64
    package let attempt: Int64
    package let duration: Nanoseconds
    /// What the handler threw. A payload that cannot be decoded counts as that.
    package let error: (any Error)?
    package let end: End

    init(_ running: RunningJob, _ error: (any Error)?, _ end: End) {
        (job, attempt) = (running.token.job, running.token.attempt)
        duration = MonotonicClock.now.subtractingSaturating(running.began)
        (self.error, self.end) = (error, end)
    }

    init(_ lost: LostAttempt) {
        (job, attempt, duration, error) = (lost.job, lost.attempt, 0, nil)
        end = .workerLost(reason: lost.reason, isDead: lost.isDead)
    }
}
