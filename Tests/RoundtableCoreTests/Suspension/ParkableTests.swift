import Foundation
import RoundtableKernel
import RoundtableUnitSupport
import Synchronization
import Testing

@testable import RoundtableCore

/// In what order, and how often, `Parking` calls what it parks.
@Suite struct ParkableTests {
    /// Writes each call down. A test sets what a call returns.
    private final class Stub: Parkable {
        let name: String
        let use: HeldConnection.Use
        let calls: Shared<[String]>
        /// The number of calls of `park` that fail, and of `stepParking` that hold a connection.
        let refusals = Shared(0)
        let holds = Shared(0)
        let isNeeding = Shared(false)

        init(_ name: String, _ use: HeldConnection.Use, _ calls: Shared<[String]>) {
            (self.name, self.use, self.calls) = (name, use, calls)
        }

        private func note(_ call: String) { calls.change { $0.append(name + "." + call) } }

        private func countDown(_ count: Shared<Int>) -> Bool {
            var isLeft = false
            count.change { count in
                isLeft = count > 0
                if isLeft { count -= 1 }
            }
            return isLeft
        }

        func willPark() { note("willPark") }
        func park() -> Bool {
            let isRefused = countDown(refusals)
            note(isRefused ? "refuse" : "park")
            return !isRefused
        }
        var needsLaterOnes: Bool { isNeeding.value }
        func stepParking() -> [HeldConnection] {
            note("step")
            return countDown(holds) ? [HeldConnection(use: use)] : []
        }
        func interruptParking() { note("interrupt") }
        func unpark() { note("unpark") }
        func didUnpark() { note("didUnpark") }
    }

    private let calls = Shared<[String]>([])
    private let parking = Parking()
    private let a: Stub
    private let b: Stub

    init() {
        a = Stub("a", .observation, calls)
        b = Stub("b", .writing, calls)
    }

    private func park(milliseconds: UInt64 = 60_000, isCalledOff: @escaping @Sendable () -> Bool = { false }) async
        -> [HeldConnection]
    {
        await onThread { [parking, a, b] in
            let deadline = MonotonicClock.now + milliseconds * 1_000_000
            return parking.park([a, b], until: deadline, isCalledOff: isCalledOff)
        }
    }

    private func unpark() { parking.unpark([a, b]) }

    @Test func inOrderAndBack() async {
        #expect(await park() == [])
        #expect(calls.value == ["a.willPark", "b.willPark", "a.park", "b.park", "a.step", "b.step"])
        calls.change { $0 = [] }
        unpark()
        #expect(calls.value == ["b.unpark", "a.unpark", "b.didUnpark", "a.didUnpark"])
    }

    /// A connection that is being opened is parked when it is open. What comes later in the list waits for that.
    @Test func aConnectionThatOpensIsParkedLater() async {
        a.refusals.change { $0 = 2 }
        #expect(await park() == [])
        #expect(Array(calls.value.dropFirst(2)) == ["a.refuse", "a.refuse", "a.park", "b.park", "a.step", "b.step"])
    }

    @Test func stepsUntilNothingIsHeld() async {
        b.holds.change { $0 = 2 }
        #expect(await park() == [])
        let steps = ["a.step", "b.step", "a.step", "b.step", "a.step", "b.step"]
        #expect(Array(calls.value.dropFirst(4)) == steps)
    }

    /// While something that has begun needs a later one, that one is not parked, but at the deadline it is.
    @Test func whatIsNeededIsParkedAtTheDeadline() async throws {
        a.isNeeding.change { $0 = true }
        let parked = Shared<[HeldConnection]?>(nil)
        let ended = inOwnThread { [parking, a, b] in
            let held = parking.park([a, b], until: MonotonicClock.now + 3_600_000_000_000) { false }
            parked.change { $0 = held }
        }
        try await eventually("several steps") { calls.value.count { $0 == "a.step" } > 3 }
        #expect(!calls.value.contains("b.park"))
        a.isNeeding.change { $0 = false }
        try await ended.value
        #expect(parked.value == [] && calls.value.contains("b.park"))

        a.isNeeding.change { $0 = true }
        calls.change { $0 = [] }
        let held = await park(milliseconds: 20)
        // The connection is closed at once, or is reported.
        try await eventually("parked nevertheless") { calls.value.contains("b.park") }
        #expect(held == [] || held == [HeldConnection(use: .writing)])
    }

    /// Statements are interrupted near the deadline, also the statements of connections that are not parked yet.
    @Test func interruptsBeforeTheDeadline() async throws {
        a.holds.change { $0 = .max }
        b.refusals.change { $0 = .max }
        #expect(await park(milliseconds: 20) == [HeldConnection(use: .observation), HeldConnection(use: .writing)])
        #expect(calls.value.contains("a.interrupt") && calls.value.contains("b.interrupt"))
        b.refusals.change { $0 = 0 }
        try await eventually("parked after the deadline") { calls.value.last == "b.park" }
    }

    @Test func unparkingEndsParking() async throws {
        b.refusals.change { $0 = .max }
        let held = Shared<[HeldConnection]?>(nil)
        let ended = inOwnThread { [parking, a, b] in
            let connections = parking.park([a, b], until: MonotonicClock.now + 60_000_000_000) { false }
            held.change { $0 = connections }
        }
        try await eventually("it tries") { calls.value.contains("b.refuse") }
        unpark()
        try await ended.value
        #expect(held.value == [HeldConnection(use: .writing)])
        #expect(Array(calls.value.suffix(4)) == ["b.unpark", "a.unpark", "b.didUnpark", "a.didUnpark"])
    }
}
