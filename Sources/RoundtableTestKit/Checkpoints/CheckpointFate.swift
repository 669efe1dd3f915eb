/// What becomes of a peer at one of the calls that its checkpoints make to the system.
package struct CheckpointFate: Codable, Sendable, Hashable {
    package enum Moment: String, Codable, Sendable, CaseIterable {
        /// SIGKILL at that moment of the call. *Half-way* is for writes: half a page is written.
        case before, halfway, after
        /// SIGSTOP before the call.
        case stoppedBefore
    }

    /// The number of the call, counted from 0.
    package var call: Int
    /// Of this kind; nil: of any.
    package var point: CheckpointSchedule.Point?
    package var moment: Moment
    /// Breaks each checkpoint: the wal-index says that all pages are copied before they are. A test that does not find out finds
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
