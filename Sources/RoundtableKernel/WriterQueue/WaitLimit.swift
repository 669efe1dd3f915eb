/// A condition, checked from time to time, that may end a wait for the turn before its deadline.
///
/// It is called on the waiting thread, between two sleeps, while the participant is in the queue. If the turn is granted during the
/// call, the participant takes it up afterwards. If the call takes longer than the other waiters' patience, they pass the turn on.
package protocol WaitLimit: AnyObject {
    /// When `mayContinue(at:)` is to be called next, in ns of the monotonic clock.
    var nextQuestion: Nanoseconds { get }

    /// Whether the wait continues. If false, the wait ends as at its deadline.
    func mayContinue(at now: Nanoseconds) -> Bool
}
