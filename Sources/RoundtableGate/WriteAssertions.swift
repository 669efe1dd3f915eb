import Dispatch
import Foundation
import RoundtableKernel
import Synchronization

// Rule F5: Where the system grants assertions, writes hold one together: requested before the first of them takes its turn, and ended as
// soon as the gate is closed and no access is inside, else 100 ms after the last write. While it is held, nothing inside is aborted. When
// it expires, the gate closes (F1), what is inside is aborted in the time that is left, and the assertion is ended in any case. While
// writes use it, the next one replaces it after 20 s. An expiring activity keeps the thread of its callback for 60 s, and counts as expired
// then.

/// The assertion that the writes of a process share. The first write requests it, and it ends a while after the last write,
/// because a request takes the system time (rule F5).
package final class WriteAssertions: Sendable {
    private struct State {
        var provider: (any SuspensionAssertions)?
        var assertion: (any SuspensionAssertion)?
        /// The number of the assertion.
        var number = 0
        var isExpired = false
        /// When the system granted the assertion.
        var since: Nanoseconds = 0
        /// Whether the timer of ``renewLater(after:)`` runs.
        var isRenewing = false
        /// The number of the assertion that is being requested, or was requested last, and whether it has expired already.
        var requested = (number: 0, isExpired: false)
        var lastUse: Nanoseconds = 0
        var hasTimer = false
        var onExpiry: @Sendable (Duration) -> Void = { _ in }

        var isProtecting: Bool { assertion != nil && !isExpired }

        /// - returns: the number of the assertion that is going to be requested.
        mutating func request() -> Int {
            requested = (requested.number + 1, false)
            return requested.number
        }

        /// Holds the assertion that was requested.
        mutating func hold(_ granted: any SuspensionAssertion) {
            (number, isExpired) = requested
            assertion = granted
            since = MonotonicClock.now
        }
    }

    /// How long the assertion is kept when no write runs.
    private static let linger: Nanoseconds = 100_000_000
    /// The age at which another assertion replaces one that is in use. An expiring activity keeps a thread of the system, and does not do so for
    /// ever.
    private let renewal: Nanoseconds

    package init(renewal: Duration = .seconds(20)) { self.renewal = renewal.nanoseconds }

    private let state = Mutex(State())
    private let uses = Atomic(0)
    private let hasProvider = Atomic(false)
    /// Held while the assertion is requested, taken over or ended.
    private let asking = NSLock()

    package var provider: (any SuspensionAssertions)? {
        get { state.withLock { $0.provider } }
        set {
            state.withLock { $0.provider = newValue }
            hasProvider.store(newValue != nil, ordering: .releasing)
        }
    }

    var onExpiry: @Sendable (Duration) -> Void {
        get { state.withLock { $0.onExpiry } }
        set { state.withLock { $0.onExpiry = newValue } }
    }

    /// Whether running writes have an assertion that has not expired.
    var isProtecting: Bool {
        uses.load(ordering: .relaxed) > 0 && state.withLock { $0.isProtecting }
    }

    /// Whether the system has refused the assertion, or has taken it back.
    var isMissing: Bool { hasProvider.load(ordering: .acquiring) && !state.withLock { $0.isProtecting } }

    /// Begins a use, which ``endUse()`` ends, and requests an assertion if there is none.
    ///
    /// - parameter isLate: whether the use may no longer begin. A request may have to wait for others, which take the system time.
    /// - returns: false if nothing was requested for that reason.
    @discardableResult
    func beginUse(unless isLate: () -> Bool = { false }) -> Bool {
        uses.wrappingAdd(1, ordering: .acquiringAndReleasing)
        guard isMissing else { return true }
        if isLate() { return false }
        return asking.withLock {
            guard isMissing else { return true }
            if isLate() { return false }
            request()
            return true
        }
    }

    /// Requests an assertion, which replaces the present one. If the system refuses, that one protects the writes until it expires. Must be called
    /// with `asking`.
    private func request() {
        drop()
        guard let provider else { return }
        let number = state.withLock { $0.request() }
        let assertion = provider.begin("Roundtable: writing") { [weak self] timeLeft in
            guard let self, expire(number) else { return }
            onExpiry(timeLeft)
        }
        guard let assertion else { return }
        let superseded = state.withLock { state in
            // The new assertion has expired already. The present one still protects, so it stays.
            if state.requested.isExpired, state.isProtecting { return assertion as (any SuspensionAssertion)? }
            defer { state.hold(assertion) }
            return state.assertion
        }
        superseded?.end()
        startRenewing()
    }

    /// Whether the timer for renewals runs. For tests.
    var isRenewing: Bool { state.withLock { $0.isRenewing } }

    /// Starts the timer for renewals, unless it runs.
    private func startRenewing() {
        let isFirst = state.withLock { state in
            defer { state.isRenewing = true }
            return !state.isRenewing
        }
        if isFirst { renewLater(after: renewal) }
    }

    /// Replaces the assertion if it is old and in use. One timer serves all assertions, and stops when there is none.
    private func renewLater(after delay: Nanoseconds) {
        DispatchQueue.global().asyncAfter(deadline: .now() + .nanoseconds(Int(delay))) { [weak self] in
            guard let self else { return }
            let next: Nanoseconds? = asking.withLock {
                let age: Nanoseconds? = state.withLock { state in
                    state.isRenewing = state.assertion != nil
                    return state.isRenewing ? MonotonicClock.now &- state.since : nil
                }
                guard let age else { return nil }
                if age < renewal { return renewal - age }
                if uses.load(ordering: .acquiring) > 0 { request() }
                return renewal
            }
            if let next { renewLater(after: next) }
        }
    }

    /// - returns: whether the assertion with this number is the present one, or was requested last.
    private func expire(_ number: Int) -> Bool {
        state.withLock { state in
            let (isPresent, isRequested) = (state.number == number, state.requested.number == number)
            if isPresent { state.isExpired = true }
            if isRequested { state.requested.isExpired = true }
            return isPresent || isRequested
        }
    }

    // MARK: Assertions of protected accesses

    /// Takes over the assertion of a protected access that has ended, while writes run that have none (rule F5b).
    ///
    /// - parameter hasExpired: whether it has expired. An expiry that comes later is noted by ``expire(_:)``.
    /// - returns: false when it is not needed, or has expired.
    func take(_ assertion: any SuspensionAssertion, unless hasExpired: () -> Bool = { false }) -> Bool {
        asking.withLock {
            let isTaken = state.withLock { state in
                guard uses.load(ordering: .acquiring) > 0, state.assertion == nil, !hasExpired() else { return false }
                _ = state.request()
                state.hold(assertion)
                return true
            }
            if isTaken { startRenewing() }
            return isTaken
        }
    }

    /// Notes that an assertion has expired that may have been taken over.
    func expire(_ assertion: any SuspensionAssertion & AnyObject) {
        state.withLock { if $0.assertion as AnyObject? === assertion { $0.isExpired = true } }
    }

    func endUse() {
        let left = uses.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue
        guard left == 0, hasProvider.load(ordering: .acquiring) else { return }
        let mustStartTimer = state.withLock { state in
            state.lastUse = MonotonicClock.now
            guard state.assertion != nil, !state.hasTimer else { return false }
            state.hasTimer = true
            return true
        }
        if mustStartTimer { endLater() }
    }

    private func endLater() {
        DispatchQueue.global().asyncAfter(deadline: .now() + .nanoseconds(Int(Self.linger))) { [weak self] in
            guard let self else { return }
            let isIdle = state.withLock { state in
                let isIdle = MonotonicClock.now &- state.lastUse >= Self.linger && uses.load(ordering: .acquiring) == 0
                if isIdle { state.hasTimer = false }
                return isIdle
            }
            if isIdle { endIfIdle() } else { endLater() }
        }
    }

    /// Ends the assertion if no write uses it. While the gates are closed, no write will need it soon.
    ///
    /// - parameter deadline: until when the caller waits for a request that takes the system time. Another thread continues then.
    func endIfIdle(until deadline: Nanoseconds = .max) {
        guard asking.lock(until: deadline) else {
            return DispatchQueue.global().async { [weak self] in self?.endIfIdle() }
        }
        defer { asking.unlock() }
        let assertion = state.withLock { state in
            guard uses.load(ordering: .acquiring) == 0 else { return nil as (any SuspensionAssertion)? }
            defer { state.assertion = nil }
            return state.assertion
        }
        assertion?.end()
    }

    /// Ends the assertion if it has expired.
    func drop() {
        let assertion = state.withLock { state in
            guard state.isExpired else { return nil as (any SuspensionAssertion)? }
            defer { state.assertion = nil }
            return state.assertion
        }
        assertion?.end()
    }
}
