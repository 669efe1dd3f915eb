#if os(Linux)
    import Foundation
    import Glibc
    @testable import RoundtableTestKit
    import Synchronization
    import Testing

    /// The judged process's end of the connection (rules J3 to J6), with both ends in one process.
    @Suite struct SuspensionSubjectTests {
        private final class Events: Sendable {
            private let events = Mutex<[SuspensionSubject.Event]>([])
            func append(_ event: SuspensionSubject.Event) { events.withLock { $0.append(event) } }
            var all: [SuspensionSubject.Event] { events.withLock { $0 } }
        }

        private func connected(
            grantsAssertions: Bool = true,
            _ body: (SuspensionDesk, SuspensionSubject, Events) throws -> Void
        ) throws {
            let desk = try SuspensionDesk(grantsAssertions: grantsAssertions)
            defer { desk.end() }
            let events = Events()
            let environment = [AbstractSocket.environmentName: desk.name]
            let subject = try #require(try SuspensionSubject.connect(environment: environment) { events.append($0) })
            try body(desk, subject, events)
        }

        private let own: Set<Int32> = [getpid()]

        @Test func withoutPolice() throws {
            #expect(try SuspensionSubject.connect(environment: [:]) { _ in } == nil)
        }

        @Test func assertionsAreHeldUntilTheyEnd() throws {
            try connected { desk, subject, _ in
                let first = try #require(subject.begin("first of two"))
                var second = subject.begin("second")
                #expect(second != nil)
                #expect(Set(desk.assertions(of: own)) == ["first of two", "second"])
                #expect(desk.assertions(of: [1]) == [])
                first.end()
                first.end()
                // With its last reference.
                second = nil
                desk.catchUp()
                #expect(desk.assertions(of: own) == [])
            }
        }

        @Test func refusedWhenTimeIsUp() throws {
            try connected { desk, subject, _ in
                desk.refuse(own)
                // Only a process that is connected when its time is up is meant.
                #expect(subject.begin("late") == nil)
                desk.forget(own)
                #expect(subject.begin("later") != nil)
            }
            try connected(grantsAssertions: false) { _, subject, _ in #expect(subject.begin("never") == nil) }
        }

        @Test func eventsArriveInOrder() throws {
            try connected { desk, subject, events in
                // Answered, hence connected.
                _ = subject.begin("hello")
                #expect(desk.send(.suspending(milliseconds: 50), to: own) == 1)
                desk.send(.expiring(milliseconds: 2000), to: own)
                desk.send(.resumed, to: own)
                let expected: [SuspensionSubject.Event] = [
                    .suspending(.milliseconds(50)), .expiring(.seconds(2)), .resumed,
                ]
                try eventually("all events arrive") { events.all.count == 3 }
                #expect(events.all == expected)
                subject.answer()
                try eventually("the answer arrives") {
                    desk.catchUp()
                    return desk.answered(own) != nil
                }
            }
        }

        /// Each connection is notified once a suspension, whenever it was made; the process counts once.
        @Test func noticeOnceForEachConnection() throws {
            try connected { desk, subject, events in
                // Answered, hence connected.
                _ = subject.begin("hello")
                #expect(desk.giveNotice(milliseconds: 50, to: own) == own)
                #expect(desk.giveNotice(milliseconds: 40, to: own) == [])
                let later = Events()
                let environment = [AbstractSocket.environmentName: desk.name]
                let second = try SuspensionSubject.connect(environment: environment) { later.append($0) }
                _ = second?.begin("hello")
                #expect(desk.giveNotice(milliseconds: 30, to: own) == own)
                desk.send(.resumed, to: own)
                try eventually("both are resumed") { events.all.last == .resumed && later.all.last == .resumed }
                #expect(events.all == [.suspending(.milliseconds(50)), .resumed])
                #expect(later.all == [.suspending(.milliseconds(30)), .resumed])
                desk.forget(own)
                #expect(desk.giveNotice(milliseconds: 20, to: own) == own)
            }
        }

        /// What the police says at once waits until the connecting program has made its preparations.
        ///
        ///     police          connecting               hearing
        ///                     connects
        ///     suspending
        ///                     prepares to answer
        ///                                              suspending: answers
        @Test(.timeLimit(.minutes(1))) func eventWhileConnecting() throws {
            let desk = try SuspensionDesk(grantsAssertions: true)
            defer { desk.end() }
            let events = Events()
            let known = Mutex<SuspensionSubject?>(nil)
            let subject = try SuspensionSubject.connect(
                environment: [AbstractSocket.environmentName: desk.name],
                beforeListening: { subject in
                    try? eventually("it is notified") { !desk.giveNotice(milliseconds: 50, to: own).isEmpty }
                    // As long as it would take to hear of it.
                    try? eventually("nothing is heard", within: .milliseconds(200)) { !events.all.isEmpty }
                    known.withLock { $0 = subject }
                },
                onEvent: { event in
                    known.withLock { $0 }?.answer()
                    events.append(event)
                }
            )
            #expect(subject != nil)
            try eventually("the answer arrives") {
                desk.catchUp()
                return !events.all.isEmpty && desk.answered(own) != nil
            }
            #expect(events.all == [.suspending(.milliseconds(50))])
        }

        /// No process waits for a police that has ended.
        @Test(.timeLimit(.minutes(1))) func policeThatEnds() throws {
            try connected { desk, subject, _ in
                desk.end()
                #expect(subject.begin("in vain") == nil)
            }
        }

        @Test(arguments: ["", "begin", "begin x y", "granted", "suspending soon", "nonsense 1", "end"])
        func garbageIsNoMessage(_ line: String) { #expect(SuspensionMessage(line: line) == nil) }

        @Test func linesSurviveTheWay() {
            let messages: [SuspensionMessage] = [
                .suspending(milliseconds: 0), .granted(id: 1), .refused(id: 2), .expiring(milliseconds: 3), .resumed,
                .begin(id: 4, name: "a name of words"), .begin(id: 5, name: ""), .end(id: 6), .closed,
            ]
            for message in messages { #expect(SuspensionMessage(line: message.line) == message) }
        }
    }
#endif
