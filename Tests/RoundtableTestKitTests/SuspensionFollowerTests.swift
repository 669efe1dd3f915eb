#if os(Linux)
    import Foundation
    @testable import RoundtableTestKit
    import Synchronization
    import Testing
    import RoundtableGate

    /// That events do not wait for each other, and that the last one holds.
    @Suite struct SuspensionFollowerTests {
        /// A gate that closes when it is let.
        private final class Gate: Sendable {
            struct State {
                var isSuspended = false
                var calls: [String] = []
                var isWaiting = false
                var mayBegin = true
                var mayReturn = true
            }

            let state = Mutex(State())
            var calls: [String] { state.withLock { $0.calls } }

            func follower() -> SuspensionFollower {
                SuspensionFollower(
                    suspend: { _ in
                        self.state.withLock { $0.isWaiting = true }
                        self.wait { $0.mayBegin }
                        self.call("suspend", isSuspended: true)
                        self.wait { $0.mayReturn || !$0.isSuspended }
                        self.state.withLock { $0.isWaiting = false }
                    },
                    resume: { self.call("resume", isSuspended: false) },
                    answer: { self.state.withLock { $0.calls.append("answer") } }
                )
            }

            private func call(_ name: String, isSuspended: Bool) {
                state.withLock { state in
                    state.isSuspended = isSuspended
                    state.calls.append(name)
                }
            }

            private func wait(_ condition: (State) -> Bool) {
                try? eventually("the gate may continue", within: .seconds(30)) { state.withLock { condition($0) } }
            }
        }

        @Test func answersOnceSuspended() throws {
            let gate = Gate()
            let follower = gate.follower()
            follower.suspending(until: .now)
            try eventually("it has answered") { gate.calls == ["suspend", "answer"] }
            follower.resumed()
            // The thread that suspends may have resumed once more by now, which does nothing.
            #expect(gate.calls.prefix(3) == ["suspend", "answer", "resume"])
        }

        /// Being resumed does not wait for a suspension that waits for locks.
        @Test func resumedWhileSuspending() throws {
            let gate = Gate()
            gate.state.withLock { $0.mayReturn = false }
            let follower = gate.follower()
            follower.suspending(until: .now + .seconds(10))
            try eventually("it suspends") { gate.calls == ["suspend"] }
            follower.resumed()
            try eventually("it has returned") { gate.state.withLock { !$0.isWaiting && !$0.isSuspended } }
            #expect(!gate.calls.contains("answer"))
        }

        /// A suspension that begins only after its end is taken back.
        ///
        ///     hearing        suspending
        ///     suspending
        ///                    has not begun yet
        ///     resumed
        ///                    suspends
        ///                    resumes
        @Test func resumedBeforeSuspending() throws {
            let gate = Gate()
            gate.state.withLock { $0.mayBegin = false }
            let follower = gate.follower()
            follower.suspending(until: .now)
            try eventually("it is about to suspend") { gate.state.withLock { $0.isWaiting } }
            follower.resumed()
            #expect(gate.calls == ["resume"])
            gate.state.withLock { $0.mayBegin = true }
            try eventually("it is taken back") { gate.calls == ["resume", "suspend", "resume"] }
            #expect(!gate.state.withLock { $0.isSuspended })
        }

        /// The process is suspended once more meanwhile: then it is suspended, and has answered once.
        @Test func suspendedAgain() throws {
            let gate = Gate()
            gate.state.withLock { $0.mayBegin = false }
            let follower = gate.follower()
            follower.suspending(until: .now)
            try eventually("it is about to suspend") { gate.state.withLock { $0.isWaiting } }
            follower.resumed()
            follower.suspending(until: .now)
            gate.state.withLock { $0.mayBegin = true }
            try eventually("it has answered") { gate.calls.last == "answer" }
            #expect(gate.calls == ["resume", "suspend", "suspend", "answer"])
            #expect(gate.state.withLock { $0.isSuspended })
        }

        /// Whatever comes, in whatever time: in the end the process is in the state of the last event.
        @Test(.timeLimit(.minutes(1))) func lastEventHolds() throws {
            var random = SeededGenerator()
            for _ in 0..<200 {
                let gate = Gate()
                let follower = gate.follower()
                var isSuspended = false
                for _ in 0..<Int.random(in: 1...6, using: &random) {
                    isSuspended = Bool.random(using: &random)
                    if isSuspended { follower.suspending(until: .now) } else { follower.resumed() }
                    if Bool.random(using: &random) { usleep(UInt32.random(in: 0...100, using: &random)) }
                }
                try eventually("the last event holds, seed \(random.seed)") {
                    follower.isSettled && gate.state.withLock { $0.isSuspended == isSuspended }
                }
            }
        }
    }

    /// Assertions of the police as the library asks for them.
    @Suite struct PoliceAssertionTests {
        private func connected(_ body: (SuspensionDesk, PoliceAssertions) throws -> Void) throws {
            let desk = try SuspensionDesk(grantsAssertions: true)
            defer { desk.end() }
            let environment = [AbstractSocket.environmentName: desk.name]
            let subject = try #require(try SuspensionSubject.connect(environment: environment) { _ in })
            try body(desk, PoliceAssertions { subject })
        }

        private let own: Set<Int32> = [getpid()]

        private final class ReceivedTimes: Sendable {
            private let times = Mutex<[Duration]>([])
            func append(_ time: Duration) { times.withLock { $0.append(time) } }
            var all: [Duration] { times.withLock { $0 } }
        }

        @Test func heldUntilTheEnd() throws {
            try connected { desk, assertions in
                let assertion = try #require(assertions.begin("sync") { _ in })
                #expect(desk.assertions(of: own) == ["sync"])
                assertion.end()
                assertion.end()
                desk.catchUp()
                #expect(desk.assertions(of: own) == [])
            }
        }

        /// Holders are notified of their end, once, and one that blocks does not prevent the others from hearing; assertions that have ended
        /// are not notified.
        @Test(.timeLimit(.minutes(1))) func expiry() throws {
            try connected { _, assertions in
                let (first, second, ended) = (ReceivedTimes(), ReceivedTimes(), ReceivedTimes())
                let mayReturn = Mutex(false)
                let held = [
                    assertions.begin("first") { left in
                        first.append(left)
                        try? eventually("it may return") { mayReturn.withLock { $0 } }
                    },
                    assertions.begin("second") { second.append($0) },
                ]
                assertions.begin("ended") { ended.append($0) }?.end()
                assertions.expire(in: .seconds(2))
                assertions.expire(in: .seconds(1))
                try eventually("both are notified") { first.all == [.seconds(2)] && second.all == [.seconds(2)] }
                mayReturn.withLock { $0 = true }
                for assertion in held { assertion?.end() }
                #expect(ended.all == [])
            }
        }

        @Test func refused() throws {
            let received = ReceivedTimes()
            let assertions = PoliceAssertions { nil }
            #expect(assertions.begin("in vain") { received.append($0) } == nil)
            assertions.expire(in: .zero)
            #expect(received.all == [])
        }

        /// The assertion is granted, and taken back before the requester has looked.
        @Test(.timeLimit(.minutes(1))) func expiryWhileAsking() throws {
            try connected { desk, _ in
                let received = ReceivedTimes()
                let environment = [AbstractSocket.environmentName: desk.name]
                let subject = try #require(try SuspensionSubject.connect(environment: environment) { _ in })
                let box = Mutex<PoliceAssertions?>(nil)
                let assertions = PoliceAssertions {
                    box.withLock { $0 }?.expire(in: .seconds(3))
                    return subject
                }
                box.withLock { $0 = assertions }
                let assertion = assertions.begin("late") { received.append($0) }
                #expect(assertion != nil)
                try eventually("it is notified") { received.all == [.seconds(3)] }
                assertion?.end()
            }
        }
    }
#endif
