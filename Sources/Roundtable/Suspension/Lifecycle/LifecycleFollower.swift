import Synchronization

/// Closes and opens the gate of all databases as an app, or the host of an extension, goes to the background and comes back.
///
/// It is told so by notifications, on the main thread, and is not suspended while it deals with one.
final class LifecycleFollower: Sendable {
    enum Event: Equatable, Sendable, CaseIterable {
        case didEnterBackground
        case willEnterForeground
        /// Follows a launch to the foreground, which no `willEnterForeground` tells when the app has no scenes.
        case didBecomeActive
        /// A while after the launch, it is still in the background.
        case isInBackground
    }

    /// What the follower acts on.
    struct Surroundings: Sendable {
        /// Closes the gate, and returns when no lock is held, or when so much time has passed.
        var close: @Sendable (Duration) -> Void
        var open: @Sendable () -> Void
        var assertions: @Sendable () -> (any SuspensionAssertions)?
        /// On the main thread.
        var later: @Sendable (Duration, @escaping @Sendable () -> Void) -> Void
        var isFollowing: @Sendable () -> Bool = { true }
    }

    /// For how long writes may still begin after the app has entered the background, where the system grants it.
    static let grace = Duration.seconds(2)
    /// For how long the main thread may be kept. UIKit ends an app that does not return from entering the background in 5 s.
    static let patience = Duration.seconds(1)

    private let surroundings: Surroundings
    private let machine = Mutex(LifecycleMachine())
    private let assertion = Mutex<(leaving: Int, any SuspensionAssertion)?>(nil)

    init(_ surroundings: Surroundings) { self.surroundings = surroundings }

    func handle(_ event: Event) {
        switch event {
        case .didEnterBackground:
            guard surroundings.isFollowing() else { return }
            if let leaving = machine.withLock({ $0.enterBackground() }) { leave(leaving) }
        case .willEnterForeground, .didBecomeActive:
            // Also when it does not follow any more: the gate may have been closed when it did.
            machine.withLock { $0.enterForeground() }
            surroundings.open()
        case .isInBackground:
            guard surroundings.isFollowing(), machine.withLock({ $0.findInBackground() }) else { return }
            close(within: Self.patience)
        }
    }

    private func leave(_ leaving: Int) {
        let assertion = surroundings.assertions()?.begin("Roundtable: save before suspension") { [self] remainder in
            finish(leaving, within: remainder)
        }
        guard let assertion else { return finish(leaving, within: Self.patience) }
        let last = self.assertion.withLock { held in
            defer { held = (leaving, assertion) }
            return held
        }
        last?.1.end()
        surroundings.later(Self.grace) { [self] in
            finish(leaving, within: Self.patience)
            end(leaving)
        }
    }

    private func finish(_ leaving: Int, within time: Duration) {
        guard machine.withLock({ $0.finishLeaving(leaving) }) else { return }
        close(within: time)
        end(leaving)
    }

    private func end(_ leaving: Int) {
        let ended = assertion.withLock { held -> (any SuspensionAssertion)? in
            guard let mine = held, mine.leaving == leaving else { return nil }
            held = nil
            return mine.1
        }
        ended?.end()
    }

    private func close(within time: Duration) {
        surroundings.close(time)
        // An assertion ends on any thread: the app may have come back, and opened the gate, just before it was closed.
        if machine.withLock({ $0.phase }) == .foreground { surroundings.open() }
    }
}
