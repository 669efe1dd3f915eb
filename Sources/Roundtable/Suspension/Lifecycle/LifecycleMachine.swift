/// When the databases of an app are suspended and resumed: pure, for ``LifecycleFollower``.
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
        /// The number tells one leaving from the next.
        case leaving(Int)
        case background
    }

    private(set) var phase = Phase.foreground
    private var hasBeenSeen = false
    private var leavings = 0

    /// - returns: the number of this leaving; nil when the app is on its way already.
    mutating func enterBackground() -> Int? {
        hasBeenSeen = true
        guard phase == .foreground else { return nil }
        leavings += 1
        phase = .leaving(leavings)
        return leavings
    }

    /// The end of the grace, or of the assertion that gave it.
    ///
    /// - returns: whether the gate is to be closed.
    mutating func finishLeaving(_ leaving: Int) -> Bool {
        guard phase == .leaving(leaving) else { return false }
        phase = .background
        return true
    }

    /// The gate is to be opened, whatever was before: a superfluous opening harms nobody.
    mutating func enterForeground() {
        hasBeenSeen = true
        phase = .foreground
    }

    /// A while after the launch.
    ///
    /// - returns: whether the gate is to be closed.
    mutating func findInBackground() -> Bool {
        guard !hasBeenSeen, phase == .foreground else { return false }
        phase = .background
        return true
    }
}
