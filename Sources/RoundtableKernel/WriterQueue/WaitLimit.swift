/// Says from time to time whether a wait for the turn goes on, beside its deadline.
///
/// Asked on the thread that waits, in the queue but between two sleeps: meanwhile the turn can be granted, and is taken up after the
/// answer, or passed on if that took longer than the others' patience.
package protocol WaitLimit: AnyObject {
    /// When it wants to be asked next, in ns of the monotonic clock.
    var nextQuestion: Nanoseconds { get }

    /// false ends the wait as its deadline would.
    func goesOn(at now: Nanoseconds) -> Bool
}
