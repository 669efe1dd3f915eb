/// What the system gives a process so that it is not suspended for a while: `beginBackgroundTask` and
/// `performExpiringActivity` on iOS; on Linux, the suspension police of RoundtableTestKit has the like.
public protocol SuspensionAssertions: Sendable {
    /// Asks for an assertion, and blocks until the system has answered.
    ///
    /// - Parameters:
    ///   - name: what it is for, for people.
    ///   - onExpiry: called at most once, on any thread, when the system takes it back: in so long, the process may be suspended.
    /// - returns: nil when it is refused.
    func begin(_ name: String, onExpiry: @escaping @Sendable (Duration) -> Void) -> (any SuspensionAssertion)?
}

/// An assertion that was granted. See ``SuspensionAssertions``.
public protocol SuspensionAssertion: Sendable {
    /// The process may be suspended from now on. A second time, it does nothing.
    func end()
}
