#if os(Linux)
    import Foundation
    import Synchronization

    /// Brings a process into the state that the police told it last, suspended or running, by calls of which the one may block.
    ///
    /// Never in the thread that hears of events: while suspending waits for the locks, the process may be resumed, and an assertion
    /// granted or taken back. So a thread of its own suspends, and resuming does not wait for it:
    ///
    ///     hearing              suspending
    ///     suspending
    ///                          suspend() … waits for a write
    ///     resumed: resume()
    ///                          … returns. Running is wanted by now: resume()
    ///
    /// The second resume() is for a suspend() that only began after the first.
    ///
    /// The thread is there from the beginning: on a busy machine, a new one may not run for 50 ms, where one that is woken
    /// runs at once.
    final class SuspensionFollower: Sendable {
        private let follower: Follower

        /// - Parameters:
        ///   - suspend: may block until then.
        ///   - resume: does not block, and makes a `suspend` that blocks return. A second time, it does nothing.
        ///   - answer: called when suspended, unless resumed meanwhile.
        init(
            suspend: @escaping @Sendable (ContinuousClock.Instant) -> Void,
            resume: @escaping @Sendable () -> Void,
            answer: @escaping @Sendable () -> Void
        ) {
            let follower = Follower(suspend: suspend, resume: resume, answer: answer)
            self.follower = follower
            Thread.detachNewThread { follower.run() }
        }

        deinit { follower.change { $0.hasEnded = true } }

        func suspending(until deadline: ContinuousClock.Instant) {
            follower.change { state in
                state.count += 1
                state.goal = .suspended(state.count, until: deadline)
            }
        }

        func resumed() {
            follower.change { $0.goal = .running }
            follower.resume()
        }

        /// Nothing will be called any more, until something is told.
        var isSettled: Bool { follower.isSettled }
    }

    /// What the thread holds on to, so that it ends with who told it what to do.
    private final class Follower: Sendable {
        enum Goal: Equatable {
            case running
            /// Numbered, so that two in a row are two.
            case suspended(Int, until: ContinuousClock.Instant)
        }

        struct State {
            var goal = Goal.running
            var reached = Goal.running
            var count = 0
            var hasEnded = false
        }

        private let state = Mutex(State())
        /// Signalled when the state changes.
        private let changed = NSCondition()
        private let suspend: @Sendable (ContinuousClock.Instant) -> Void
        let resume: @Sendable () -> Void
        private let answer: @Sendable () -> Void

        init(
            suspend: @escaping @Sendable (ContinuousClock.Instant) -> Void,
            resume: @escaping @Sendable () -> Void,
            answer: @escaping @Sendable () -> Void
        ) {
            self.suspend = suspend
            self.resume = resume
            self.answer = answer
        }

        func change(_ body: (inout State) -> Void) {
            changed.lock()
            defer { changed.unlock() }
            state.withLock { body(&$0) }
            changed.signal()
        }

        var isSettled: Bool { state.withLock { $0.goal == $0.reached } }

        func run() {
            while let goal = next() {
                switch goal {
                case .running: resume()
                case .suspended(_, let deadline):
                    suspend(deadline)
                    if state.withLock({ $0.goal == goal }) { answer() }
                }
                state.withLock { $0.reached = goal }
            }
        }

        /// Waits until there is something to be done. nil at the end.
        private func next() -> Goal? {
            changed.lock()
            defer { changed.unlock() }
            while true {
                let (goal, isReached, hasEnded) = state.withLock { ($0.goal, $0.goal == $0.reached, $0.hasEnded) }
                if !isReached { return goal }
                if hasEnded { return nil }
                changed.wait()
            }
        }
    }
#endif
