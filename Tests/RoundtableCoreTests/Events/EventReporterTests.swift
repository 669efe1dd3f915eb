import Foundation
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableGate

/// The stream of events, without a database: buffers, consumers, and the order of events.
@Suite struct EventReporterTests {
    private struct Numbered: ReportedEvent {
        let number: Int
        var key: String?
        var severity: SharedDatabase.Severity { .info }
        var text: String { "number \(number)" }
        var replacementKey: String? { key }
    }

    private let reporter = EventReporter(path: "/db", author: "app")

    private func report(_ numbers: some Sequence<Int>) {
        for number in numbers { reporter.report(Numbered(number: number)) }
    }

    /// The number of an event; the number of dropped events is negative.
    private static func number(_ event: any ReportedEvent) -> Int {
        (event as? Numbered)?.number ?? -((event as? DroppedEvents)?.count ?? 0)
    }

    private func all(of buffer: EventBuffer) async -> [Int] {
        buffer.finish()
        var numbers: [Int] = []
        while let event = await buffer.next() { numbers.append(Self.number(event.event)) }
        return numbers
    }

    // MARK: The bounded buffer

    @Test func theNewestAreKept() {
        var pending = PendingEvents(capacity: 3)
        func append(_ number: Int) -> Int? {
            pending.append(
                StampedEvent(date: Date(timeIntervalSince1970: Double(number)), event: Numbered(number: number))
            )
            .map { Self.number($0.event) }
        }
        #expect(pending.isEmpty && pending.take() == nil)
        #expect((1...5).map(append) == [nil, nil, nil, 1, 2])
        let dropped = pending.take()
        #expect((dropped?.event as? DroppedEvents)?.count == 2)
        #expect(dropped?.date == Date(timeIntervalSince1970: 2), "the time of the last event that was dropped")
        #expect(
            [pending.take(), pending.take(), pending.take()].map { $0.map { Self.number($0.event) } } == [3, 4, 5]
        )
        #expect(pending.isEmpty && pending.take() == nil)
        // The count begins again.
        #expect((6...9).map(append) == [nil, nil, nil, 6])
        #expect((pending.take()?.event as? DroppedEvents)?.count == 1)
    }

    /// The progress of one piece of work does not push other events out.
    @Test func aNewerOneReplacesAnOlderOneWithItsKey() {
        var pending = PendingEvents(capacity: 3)
        var removed: [Int] = []
        func append(_ event: Numbered) {
            if let event = pending.append(StampedEvent(date: Date(), event: event)) {
                removed.append(Self.number(event.event))
            }
        }
        append(Numbered(number: 100))
        for number in 1...50 { append(Numbered(number: number, key: number.isMultiple(of: 2) ? "a" : "b")) }
        #expect(removed == Array(1...48))
        var rest: [Int] = []
        while let event = pending.take() { rest.append(Self.number(event.event)) }
        #expect(rest == [100, 49, 50])
    }

    // MARK: Consumers

    @Test func consumersAreIndependent() async {
        let (slow, quick, late) = (EventBuffer(capacity: 2), EventBuffer(capacity: 100), EventBuffer(capacity: 100))
        reporter.add(slow)
        reporter.add(quick)
        report(1...5)
        reporter.add(late)
        report(6...7)
        #expect(await all(of: slow) == [-5, 6, 7])
        #expect(await all(of: quick) == Array(1...7))
        #expect(await all(of: late) == [6, 7])
    }

    @Test func aRemovedConsumerReceivesNothing() async {
        let (removed, other) = (EventBuffer(capacity: 10), EventBuffer(capacity: 10))
        let number = reporter.add(removed)
        reporter.add(other)
        report([1])
        reporter.remove(number)
        report([2])
        #expect(await all(of: removed) == [1])
        #expect(await all(of: other) == [1, 2])
    }

    @Test func theEndAfterClosing() async {
        let buffer = EventBuffer(capacity: 10)
        reporter.add(buffer)
        report(1...2)
        reporter.close()
        report([3])
        #expect(await buffer.next().map { Self.number($0.event) } == 1)
        #expect(await buffer.next().map { Self.number($0.event) } == 2)
        #expect(await buffer.next() == nil)
        let late = EventBuffer(capacity: 10)
        reporter.add(late)
        #expect(await late.next() == nil)
    }

    @Test(.timeLimit(.minutes(1))) func aWaitingLoopIsWoken() async throws {
        let buffer = EventBuffer(capacity: 10)
        reporter.add(buffer)
        let numbers = Shared<[Int]>([])
        let task = Task {
            while let event = await buffer.next() { numbers.change { $0.append(Self.number(event.event)) } }
        }
        for number in 1...20 {
            report([number])
            try await eventually("it arrives") { numbers.value.last == number }
        }
        reporter.close()
        await task.value
        #expect(numbers.value == Array(1...20))
    }

    @Test(.timeLimit(.minutes(1))) func cancellationEndsALoop() async {
        let buffer = EventBuffer(capacity: 10)
        reporter.add(buffer)
        let task = Task { await buffer.next() == nil }
        task.cancel()
        #expect(await task.value)
    }

    /// Threads report at the same time: all consumers see one order, in which the events of each thread keep their order.
    @Test func oneOrder() async {
        let buffers = [EventBuffer(capacity: 10_000), EventBuffer(capacity: 10_000)]
        for buffer in buffers { reporter.add(buffer) }
        await withTaskGroup(of: Void.self) { group in
            for thread in 0..<4 { group.addTask { report((0..<500).map { thread * 1000 + $0 }) } }
        }
        let first = await all(of: buffers[0])
        #expect(await all(of: buffers[1]) == first)
        #expect(first.count == 2000)
        for thread in 0..<4 {
            #expect(first.filter { $0 / 1000 == thread } == (0..<500).map { thread * 1000 + $0 })
        }
    }

    // MARK: Closures

    /// A closure that blocks delays neither the thread that reports nor another closure.
    @Test(.timeLimit(.minutes(1))) func aSlowClosureDelaysNoOther() async throws {
        let gate = Shared(false)
        let (slow, quick) = (Shared<[Int]>([]), Shared<[Int]>([]))
        reporter.add(
            EventDelivery("slow", capacity: 3) { event in
                gate.wait { $0 }
                slow.change { $0.append(Self.number(event.event)) }
            }
        )
        reporter.add(
            EventDelivery("quick", capacity: 1000) { event in quick.change { $0.append(Self.number(event.event)) } }
        )
        report(1...100)
        try await eventually("the quick one has all") { quick.value.count == 100 }
        #expect(quick.value == Array(1...100))
        #expect(slow.value.isEmpty)
        gate.change { $0 = true }
        reporter.waitForDeliveries()
        // The closure may have begun with the first event, or with the number of events that were dropped until then.
        let received = slow.value
        #expect(received.suffix(3) == [98, 99, 100])
        #expect(received.count(where: { $0 > 0 }) - received.filter { $0 < 0 }.reduce(0, +) == 100, "\(received)")
    }

    @Test func aClosureMayReport() {
        let numbers = Shared<[Int]>([])
        reporter.add(
            EventDelivery("again", capacity: 10) { [reporter] event in
                let number = Self.number(event.event)
                numbers.change { $0.append(number) }
                if number < 3 { reporter.report(Numbered(number: number + 1)) }
            }
        )
        report([1])
        reporter.waitForDeliveries()
        #expect(numbers.value == [1, 2, 3])
    }

    /// What was reported before the end is delivered, although the reporter forgets its consumers.
    @Test func closuresReceiveWhatWasReportedBefore() {
        let numbers = Shared<[Int]>([])
        let isBlocked = Shared(true)
        do {
            let delivery = EventDelivery("late", capacity: 10) { event in
                isBlocked.wait { !$0 }
                numbers.change { $0.append(Self.number(event.event)) }
            }
            reporter.add(delivery)
        }
        report(1...3)
        reporter.close()
        isBlocked.change { $0 = false }
        #expect(numbers.wait { $0 == [1, 2, 3] })
    }

    @Test func withoutConsumers() {
        let began = ContinuousClock.now
        report(1...100_000)
        let time = ContinuousClock.now - began
        // This only notices work that is out of all proportion.
        #expect(time < .seconds(5), "\(time)")
    }
}
