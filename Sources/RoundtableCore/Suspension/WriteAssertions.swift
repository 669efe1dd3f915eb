import Dispatch
import Foundation
import RoundtableKernel
import Synchronization

/// The assertion that the writes of a process share. The first write requests it, and it ends a while after the last write,
/// because a request takes the system time (rule F5).
package final class WriteAssertions: Sendable {
    private struct State {
        var provider: (any SuspensionAssertions)?
        var assertion: (any SuspensionAssertion)?
        /// The number of the assertion.
        var number = 0
        var isExpired = false
        var began: Nanoseconds = 0
        var lastUse: Nanoseconds = 0
        var hasTimer = false
        var onExpiry: @Sendable (Duration) -> Void = { _ in }
    }

    /// How long the assertion is kept when no write runs.
    private static let linger: Nanoseconds = 100_000_000
    /// The age at which a write replaces the assertion by another one, while writes follow each other without a pause. An expiring activity
    /// keeps a thread of the system, and does not do so for ever.
    private let renewal: Nanoseconds

    package init(renewal: Nanoseconds = 20_000_000_000) { self.renewal = renewal }

    private let state = Mutex(State())
    private let uses = Atomic(0)
    private let hasProvider = Atomic(false)
    /// Held while one write requests the assertion for all.
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
        uses.load(ordering: .relaxed) > 0 && state.withLock { $0.assertion != nil && !$0.isExpired }
    }

    func beginUse() {
        uses.wrappingAdd(1, ordering: .acquiringAndReleasing)
        guard hasProvider.load(ordering: .acquiring), !isFresh else { return }
        asking.withLock {
            guard !isFresh, let provider else { return }
            let (number, last, isOver) = state.withLock { state in
                state.number += 1
                defer {
                    state.assertion = nil
                    state.isExpired = false
                }
                return (state.number, state.assertion, state.isExpired)
            }
            if isOver { last?.end() }
            // One that has not expired protects the writes that run, until the next one does.
            defer { if !isOver { last?.end() } }
            // If the system refuses, writes continue as without a provider.
            let assertion = provider.begin("Roundtable: writing") { [weak self] timeLeft in
                guard let self else { return }
                let isLast = state.withLock { state in
                    if state.number == number { state.isExpired = true }
                    return state.number == number
                }
                if isLast { onExpiry(timeLeft) }
            }
            state.withLock {
                $0.assertion = assertion
                $0.began = MonotonicClock.now
            }
        }
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
    func endIfIdle() {
        asking.withLock {
            let assertion = state.withLock { state in
                guard uses.load(ordering: .acquiring) == 0 else { return nil as (any SuspensionAssertion)? }
                defer { state.assertion = nil }
                return state.assertion
            }
            assertion?.end()
        }
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

    private var isFresh: Bool {
        state.withLock {
            $0.assertion != nil && !$0.isExpired && MonotonicClock.now.subtractingSaturating($0.began) < renewal
        }
    }
}
