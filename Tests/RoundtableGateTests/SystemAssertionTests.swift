import Dispatch
import Foundation
import RoundtableTestBasics
import RoundtableTrials
import Synchronization
import Testing

@testable import RoundtableGate

/// What is made of the time that iOS gives, with a system that is played.
@Suite struct SystemAssertionTests {
    // MARK: Expiring activities

    /// The state machine goes through all calls in any order, six at a time. The time is answered at most once, kept at most once, and its
    /// end is reported at most once, to an owner that has the time.
    @Test func expiringActivityInAnyOrder() {
        enum Step: CaseIterable { case granted, expired, ended, givenUp }
        var walks: [[Step]] = [[]]
        for _ in 0..<6 { walks = walks.flatMap { walk in Step.allCases.map { walk + [$0] } } }
        for walk in walks {
            var machine = ExpiringActivityMachine()
            var answers = 0
            var hasTime = false
            var isNotified = false
            for step in walk {
                switch step {
                case .granted, .expired:
                    switch machine.called(expired: step == .expired) {
                    case .keep:
                        answers += 1
                        #expect(step == .granted, "\(walk)")
                        hasTime = true
                    case .refuse:
                        answers += 1
                        #expect(step == .expired, "\(walk)")
                    case .tell:
                        #expect(step == .expired && hasTime && !isNotified, "\(walk)")
                        isNotified = true
                    case .return: break
                    }
                case .ended:
                    if machine.end() { hasTime = false }
                case .givenUp:
                    #expect(machine.giveUp() == hasTime, "\(walk)")
                }
                #expect(answers <= 1, "\(walk)")
                // Nothing is withheld from the system any more.
                if machine.state == .over { #expect(!hasTime || step == .ended, "\(walk)") }
            }
        }
    }

    /// A system that calls the block of `performExpiringActivity` when the test says so, on threads of its own.
    private final class ActivitySystem: Sendable {
        private struct State {
            var reasons: [String] = []
            var block: (@Sendable (Bool) -> Void)?
            var running = 0
        }
        private let state = Mutex(State())
        /// What it answers at once; nil: nothing.
        private let answer: Bool?

        init(answering answer: Bool?) { self.answer = answer }

        func activities(remainder: Duration = .seconds(30), patience: Duration = .seconds(30)) -> ExpiringActivities {
            ExpiringActivities(
                perform: { [self] reason, block in
                    state.withLock {
                        $0.reasons.append(reason)
                        $0.block = block
                    }
                    if let answer { call(expired: !answer) }
                },
                remainder: remainder,
                patience: patience
            )
        }

        func call(expired: Bool) {
            let block = state.withLock { state in
                state.running += 1
                return state.block
            }
            DispatchQueue.global().async { [self] in
                block?(expired)
                state.withLock { $0.running -= 1 }
            }
        }

        /// How many calls have not returned: while there is one, the process is not suspended.
        var running: Int { state.withLock { $0.running } }
        var reasons: [String] { state.withLock { $0.reasons } }
    }

    /// The time that is left after the system has revoked an activity counts from then, however long the handler takes.
    @Test func theRemainderCountsFromTheExpiry() async throws {
        let remainder = 2.0
        let system = ActivitySystem(answering: true)
        let activities = system.activities(remainder: .seconds(remainder))
        let assertion = try #require(activities.begin("write") { _ in usleep(UInt32(remainder * 1e6)) })
        let began = ContinuousClock.now
        system.call(expired: true)
        try await eventually("the blocks return") { system.running == 0 }
        #expect(ContinuousClock.now - began < .seconds(2 * remainder))
        assertion.end()
    }

    @Test func activityLastsUntilItIsEnded() async throws {
        let system = ActivitySystem(answering: true)
        let assertion = try #require(system.activities().begin("write") { _ in })
        #expect(system.running == 1)
        assertion.end()
        assertion.end()
        try await eventually("the block returns") { system.running == 0 }
        #expect(system.reasons == ["write"])
    }

    @Test func activityIsRefused() async throws {
        let system = ActivitySystem(answering: false)
        #expect(system.activities().begin("") { _ in Issue.record("notified of the end of what it never had") } == nil)
        try await eventually("the block returns") { system.running == 0 }
        // The system takes no empty reason.
        #expect(system.reasons.allSatisfy { !$0.isEmpty })
    }

    @Test func activityExpires() async throws {
        let system = ActivitySystem(answering: true)
        let times = Mutex<[Duration]>([])
        let assertion = try #require(system.activities().begin("write") { left in times.withLock { $0.append(left) } })
        system.call(expired: true)
        try await eventually("the owner is notified") { times.withLock { $0 } == [.seconds(30)] }
        try await eventually("both calls keep the process from being suspended, until it is done") {
            system.running == 2
        }
        system.call(expired: true)
        try await eventually("the superfluous call returns") { system.running == 2 }
        assertion.end()
        try await eventually("the blocks return") { system.running == 0 }
        #expect(times.withLock { $0.count } == 1)
    }

    /// A thread of the system is not kept for ever, even if the system never says that the time is over. The owner is notified once, as nothing
    /// protects it any more (rule F5b).
    @Test func anActivityHasACeiling() async throws {
        let system = ActivitySystem(answering: true)
        var activities = system.activities(remainder: .milliseconds(10))
        activities.ceiling = .milliseconds(50)
        let notices = Atomic(0)
        let assertion = try #require(
            activities.begin("write") { _ in notices.wrappingAdd(1, ordering: .sequentiallyConsistent) }
        )
        try await eventually("the block returns") { system.running == 0 }
        assertion.end()
        #expect(notices.load(ordering: .sequentiallyConsistent) == 1)
    }

    /// An owner that does not end it in time loses it: the system would end the process.
    @Test func activityIsTakenBack() async throws {
        let system = ActivitySystem(answering: true)
        let assertion = system.activities(remainder: .milliseconds(10)).begin("write") { _ in }
        system.call(expired: true)
        try await eventually("the blocks return") { system.running == 0 }
        assertion?.end()
    }

    @Test func activityIsAnsweredTooLate() async throws {
        let system = ActivitySystem(answering: nil)
        let activities = system.activities(patience: .milliseconds(10))
        #expect(activities.begin("write") { _ in Issue.record("notified of the end of what it never had") } == nil)
        system.call(expired: false)
        system.call(expired: true)
        try await eventually("nothing is kept") { system.running == 0 }
    }

    // MARK: Background tasks

    private final class TaskSystem: Sendable {
        struct State {
            var handler: (@Sendable () -> Void)?
            var ended: [Int] = []
        }
        let state = Mutex(State())
        let number: Int?
        /// Whether the handler is called before the number is known.
        let isOverAtOnce: Bool

        init(number: Int?, isOverAtOnce: Bool = false) {
            self.number = number
            self.isOverAtOnce = isOverAtOnce
        }

        func tasks(remainder: Duration = .seconds(30)) -> BackgroundTasks {
            BackgroundTasks(
                beginTask: { [self] _, handler in
                    state.withLock { $0.handler = handler }
                    if isOverAtOnce { handler() }
                    return number
                },
                endTask: { [self] number in state.withLock { $0.ended.append(number) } },
                remainder: remainder
            )
        }

        func expire() { state.withLock { $0.handler }?() }
        var ended: [Int] { state.withLock { $0.ended } }
    }

    @Test func taskIsEndedOnce() throws {
        let system = TaskSystem(number: 7)
        let notices = Atomic(0)
        let assertion = try #require(system.tasks().begin("write") { _ in notices.add(1, ordering: .relaxed) })
        #expect(system.ended.isEmpty)
        assertion.end()
        assertion.end()
        system.expire()
        #expect(system.ended == [7])
        #expect(notices.load(ordering: .relaxed) == 0)
    }

    @Test func taskIsRefused() {
        let system = TaskSystem(number: nil)
        #expect(system.tasks().begin("write") { _ in } == nil)
        #expect(system.ended.isEmpty)
    }

    /// The handler returns when the task has been ended, by any owner of it.
    @Test func taskExpires() throws {
        let system = TaskSystem(number: 7)
        let holder = Mutex<(any SuspensionAssertion)?>(nil)
        let times = Mutex<[Duration]>([])
        let assertion = system.tasks().begin("write") { left in
            times.withLock { $0.append(left) }
            DispatchQueue.global().async { holder.withLock { $0 }?.end() }
        }
        holder.withLock { $0 = assertion }
        system.expire()
        #expect(system.ended == [7])
        system.expire()
        #expect(times.withLock { $0 } == [.seconds(30)])
    }

    @Test func taskIsTakenBack() {
        let system = TaskSystem(number: 7)
        let assertion = system.tasks(remainder: .milliseconds(10)).begin("write") { _ in }
        system.expire()
        #expect(system.ended == [7])
        assertion?.end()
        #expect(system.ended == [7])
    }

    /// A task that is over before its number is known is ended all the same: else the system ends the app.
    @Test func taskIsOverBeforeItHasANumber() {
        let system = TaskSystem(number: 7, isOverAtOnce: true)
        let assertion = system.tasks(remainder: .milliseconds(10)).begin("write") { _ in }
        #expect(system.ended == [7])
        assertion?.end()
        #expect(system.ended == [7])
    }
}
