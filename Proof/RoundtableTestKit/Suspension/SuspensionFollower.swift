#if os(Linux)
    import Foundation
    import Synchronization

    /// Brings a process into the state that the police reported last: suspended or running. The call that suspends may block.
    ///
    /// The thread that receives events must not block, because the process may be resumed, and an assertion may be granted or expire,
    /// while `suspend` waits for locks. So another thread suspends, and resuming does not wait for it:
    ///
    ///     event thread         suspending thread
    ///     suspending
    ///                          suspend() … waits for a write
    ///     resumed: resume()
    ///                          … returns. The goal is now to run: resume()
    ///
    /// The second resume() is needed if suspend() began only after the first.
    ///
    /// The thread is started in advance. On a busy machine, a new thread may not run for 50 ms, but a thread that is woken runs at
    /// once.
    final class SuspensionFollower: Sendable {
        private let follower: Follower

        /// - Parameters:
        ///   - suspend: suspends; may block until the deadline that it receives.
        ///   - resume: resumes without blocking, and makes a blocked `suspend` return. A second call has no effect.
        ///   - answer: called after `suspend`, unless another event has arrived meanwhile.
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

        /// Whether the last reported state is reached. If so, nothing is called until the next event.
        var isSettled: Bool { follower.isSettled }
    }

    /// The part of `SuspensionFollower` that its thread retains. It is separate, so that the thread ends when the follower is released.
    private final class Follower: Sendable {
        enum Goal: Equatable {
            case running
            /// The number distinguishes two suspensions in a row.
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

        /// Waits until the goal differs from the reached state, and returns the goal; nil at the end.
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
