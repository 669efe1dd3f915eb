/// The system's assertions that keep a process from being suspended for a while: `beginBackgroundTask` and
/// `performExpiringActivity` on iOS. On Linux, the suspension police of RoundtableTestKit provides the same.
public protocol SuspensionAssertions: Sendable {
    /// Requests an assertion, and blocks until the system has answered.
    ///
    /// - Parameters:
    ///   - name: the purpose, in words for people.
    ///   - onExpiry: called at most once, on any thread, when the system takes the assertion back. The process may be suspended
    ///     after the given duration.
    /// - returns: nil when the system refuses the assertion.
    func begin(_ name: String, onExpiry: @escaping @Sendable (Duration) -> Void) -> (any SuspensionAssertion)?
}

/// An assertion that was granted. See ``SuspensionAssertions``.
public protocol SuspensionAssertion: Sendable {
    /// Ends the assertion: the process may be suspended from now on. Further calls do nothing.
    func end()
}

/// The system refuses an assertion that a protected access needs.
package struct AssertionRefused: Error {
    package let name: String
}
