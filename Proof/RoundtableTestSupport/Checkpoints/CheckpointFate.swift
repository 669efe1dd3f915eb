/// How a peer dies or stops at one of the system calls of its checkpoints.
package struct CheckpointFate: Codable, Sendable, Hashable {
    package enum Moment: String, Codable, Sendable, CaseIterable {
        /// The peer gets SIGKILL at this moment of the call. `halfway` is for writes: half of the page is written.
        case before, halfway, after
        /// The peer gets SIGSTOP before the call.
        case stoppedBefore
    }

    /// The number of the call, counted from 0.
    package var call: Int
    /// The kind of calls that are counted; nil for all kinds.
    package var point: CheckpointSchedule.Point?
    package var moment: Moment
    /// Breaks each checkpoint: the wal-index says that all pages are copied before they are. A test that does not detect this detects
    /// nothing.
    package var countsTooEarly = false

    package init(
        call: Int,
        of point: CheckpointSchedule.Point? = nil,
        moment: Moment,
        countsTooEarly: Bool = false
    ) {
        self.call = call
        self.point = point
        self.moment = moment
        self.countsTooEarly = countsTooEarly
    }
}
