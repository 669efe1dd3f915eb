import Synchronization

/// Closes and opens the gates of all databases when an app, or the host of an extension, enters the background and returns to the foreground.
///
/// It receives notifications on the main thread. The system does not suspend the process while one is handled.
final class LifecycleFollower: Sendable {
    enum Event: Equatable, Sendable, CaseIterable {
        case didEnterBackground
        case willEnterForeground
        /// This follows a launch to the foreground, for which an app without scenes gets no `willEnterForeground`.
        case didBecomeActive
        /// The app is still in the background a while after the launch.
        case isInBackground
    }

    /// The functions that the follower calls.
    struct Surroundings: Sendable {
        /// Closes the gate, and returns when no lock is held, or when the given time has passed.
        var close: @Sendable (Duration) -> Void
        var open: @Sendable () -> Void
        var assertions: @Sendable () -> (any SuspensionAssertions)?
        /// Calls the closure on the main thread after the given time.
        var later: @Sendable (Duration, @escaping @Sendable () -> Void) -> Void
        var isFollowing: @Sendable () -> Bool = { true }
    }

    /// For how long writes may still begin after the app has entered the background, where the system grants it.
    static let grace = Duration.seconds(2)
    /// For how long the main thread may be blocked. UIKit ends an app that does not return from entering the background in 5 s.
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
            // The gate is also opened when `isFollowing` is false now, because it may have been closed before.
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
        // An assertion ends on any thread. The app may have returned to the foreground, and opened the gate, just before the gate was closed here.
        if machine.withLock({ $0.phase }) == .foreground { surroundings.open() }
    }
}
