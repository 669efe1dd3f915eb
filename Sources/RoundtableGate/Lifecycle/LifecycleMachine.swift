/// Decides when the databases of an app are suspended and resumed. It is a pure state machine for ``LifecycleFollower``.
///
/// | phase | the gate | on | to |
/// | --- | --- | --- | --- |
/// | foreground | open | entering the background | leaving |
/// | | | found to be in the background without ever having been in the foreground | background: close |
/// | leaving | open, under an assertion, so that the app can save what it has to | the grace or the assertion is over, or there is none | background: close |
/// | | | entering the foreground | foreground |
/// | background | closed | entering the foreground | foreground: open |
struct LifecycleMachine: Equatable, Sendable {
    enum Phase: Equatable, Sendable {
        case foreground
        /// The number distinguishes one leaving from the next.
        case leaving(Int)
        case background
    }

    private(set) var phase = Phase.foreground
    private var hasBeenSeen = false
    private var leavings = 0

    /// - returns: the number of this leaving; nil when the app is already leaving or in the background.
    mutating func enterBackground() -> Int? {
        hasBeenSeen = true
        guard phase == .foreground else { return nil }
        leavings += 1
        phase = .leaving(leavings)
        return leavings
    }

    /// Ends a leaving when the grace is over, or the assertion that gave it.
    ///
    /// - returns: whether the gate must be closed.
    mutating func finishLeaving(_ leaving: Int) -> Bool {
        guard phase == .leaving(leaving) else { return false }
        phase = .background
        return true
    }

    /// Enters the foreground. The gate must be opened in each case, because a superfluous opening does no harm.
    mutating func enterForeground() {
        hasBeenSeen = true
        phase = .foreground
    }

    /// Checks the state a while after the launch.
    ///
    /// - returns: whether the gate must be closed.
    mutating func findInBackground() -> Bool {
        guard !hasBeenSeen, phase == .foreground else { return false }
        phase = .background
        return true
    }
}
