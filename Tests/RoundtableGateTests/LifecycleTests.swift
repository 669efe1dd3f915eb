import RoundtableTestBasics
import Synchronization
import Testing

@testable import RoundtableGate

/// When an app's databases are suspended and resumed.
@Suite struct LifecycleTests {
    /// A gate, and a system that gives assertions or refuses them.
    private final class World: Sendable {
        struct State {
            var isClosed = false
            var closings: [Duration] = []
            var timers: [@Sendable () -> Void] = []
            /// Assertions that were granted and not ended, with their handlers.
            var assertions: [Int: @Sendable (Duration) -> Void] = [:]
            var granted = 0
        }

        let state = Mutex(State())
        let isGranting: Bool
        /// Called when the gate is about to be closed.
        let willClose = Mutex<(@Sendable () -> Void)?>(nil)
        let isFollowing = Atomic(true)

        init(isGranting: Bool) { self.isGranting = isGranting }

        func follower() -> LifecycleFollower {
            LifecycleFollower(
                .init(
                    close: { [self] time in
                        willClose.withLock { $0 }?()
                        state.withLock {
                            $0.isClosed = true
                            $0.closings.append(time)
                        }
                    },
                    open: { [self] in state.withLock { $0.isClosed = false } },
                    assertions: { [self] in Assertions(world: self) },
                    later: { [self] _, body in state.withLock { $0.timers.append(body) } },
                    isFollowing: { [self] in isFollowing.load(ordering: .relaxed) }
                )
            )
        }

        func fireTimer() {
            let timer = state.withLock { $0.timers.isEmpty ? nil : $0.timers.removeFirst() }
            timer?()
        }

        /// The system takes its time back.
        func expire() {
            for handler in state.withLock({ $0.assertions.values }) { handler(.milliseconds(300)) }
        }

        var isClosed: Bool { state.withLock { $0.isClosed } }
        var hasTime: Bool { state.withLock { !$0.assertions.isEmpty } }
        var hasTimers: Bool { state.withLock { !$0.timers.isEmpty } }
    }

    private struct Assertions: SuspensionAssertions {
        let world: World

        func begin(_ name: String, onExpiry: @escaping @Sendable (Duration) -> Void) -> (any SuspensionAssertion)? {
            guard world.isGranting else { return nil }
            return world.state.withLock { state in
                state.granted += 1
                state.assertions[state.granted] = onExpiry
                return Assertion(world: world, number: state.granted)
            }
        }
    }

    private struct Assertion: SuspensionAssertion {
        let world: World
        let number: Int
        func end() { world.state.withLock { $0.assertions[number] = nil } }
    }

    /// All that may happen to an app, in any order, six at a time: it is never suspended in the foreground, and in the background, it
    /// is suspended, or has the system's time until it is.
    @Test(arguments: [true, false]) func anyLife(isGranting: Bool) {
        enum Step: Equatable { case event(LifecycleFollower.Event), timer, expiry }
        let steps = LifecycleFollower.Event.allCases.map(Step.event) + [.timer, .expiry]
        var lives: [[Step]] = [[]]
        for _ in 0..<6 { lives = lives.flatMap { life in steps.map { life + [$0] } } }
        for life in lives {
            let world = World(isGranting: isGranting)
            let follower = world.follower()
            var isInForeground: Bool?
            for step in life {
                switch step {
                case .event(let event):
                    follower.handle(event)
                    switch event {
                    case .didEnterBackground: isInForeground = false
                    case .willEnterForeground, .didBecomeActive: isInForeground = true
                    case .isInBackground: if isInForeground == nil { isInForeground = false }
                    }
                case .timer: world.fireTimer()
                case .expiry: world.expire()
                }
                switch isInForeground {
                case true: #expect(!world.isClosed, "\(life)")
                case false: #expect(world.isClosed || world.hasTime, "\(life)")
                default: #expect(!world.isClosed, "launched, and nothing is known yet: \(life)")
                }
            }
            while world.hasTimers { world.fireTimer() }
            #expect(!world.hasTime, "an assertion is never ended: \(life)")
            #expect(world.isClosed == (isInForeground == false), "\(life)")
        }
    }

    /// Where the system gives time, what the app saves on its way to the background is not turned away.
    @Test func graceToSave() {
        let world = World(isGranting: true)
        let follower = world.follower()
        follower.handle(.didEnterBackground)
        #expect(!world.isClosed && world.hasTime)
        world.fireTimer()
        #expect(world.isClosed && !world.hasTime)
        follower.handle(.willEnterForeground)
        #expect(!world.isClosed)
    }

    /// The system's deadline counts when it is the shorter one; without its time, there is no grace.
    @Test func howLongTheGateMayTake() {
        let expiring = World(isGranting: true)
        expiring.follower().handle(.didEnterBackground)
        expiring.expire()
        #expect(expiring.state.withLock { $0.closings } == [.milliseconds(300)])

        let refusing = World(isGranting: false)
        refusing.follower().handle(.didEnterBackground)
        #expect(refusing.state.withLock { $0.closings } == [LifecycleFollower.patience])
    }

    /// ```
    /// system's thread        main thread
    /// time is over
    /// the app is leaving
    ///                        the app comes back: the gate opens
    /// the gate closes
    /// … and opens again
    /// ```
    @Test func comesBackWhileTheGateIsClosed() {
        let world = World(isGranting: true)
        let follower = world.follower()
        world.willClose.withLock { $0 = { follower.handle(.willEnterForeground) } }
        follower.handle(.didEnterBackground)
        world.expire()
        #expect(world.state.withLock { $0.closings.count } == 1)
        #expect(!world.isClosed)
    }

    /// An app that suspends its databases by itself, or never; also one that chooses so when it is in the background already.
    @Test func doesNotFollow() {
        let world = World(isGranting: false)
        let follower = world.follower()
        follower.handle(.didEnterBackground)
        #expect(world.isClosed)
        world.isFollowing.store(false, ordering: .relaxed)
        follower.handle(.willEnterForeground)
        #expect(!world.isClosed)
        follower.handle(.didEnterBackground)
        follower.handle(.isInBackground)
        #expect(!world.isClosed)
    }
}
