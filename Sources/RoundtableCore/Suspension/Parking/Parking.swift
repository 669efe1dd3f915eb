import Foundation
import RoundtableGate
import RoundtableKernel
import Synchronization

/// Parks and unparks a list of ``Parkable`` things, and knows whether they are requested to be parked. The list is always the same.
final class Parking: Sendable {
    private let isWanted = Atomic(false)
    /// Held while connections are closed or opened.
    private let transition = NSLock()

    /// How long before the deadline statements are interrupted, and how often.
    private static let interruption: (lead: Nanoseconds, interval: Nanoseconds) = (100_000_000, 500_000)

    /// Whether a thread closes or opens connections now.
    var isParking: Bool {
        guard transition.try() else { return true }
        transition.unlock()
        return false
    }

    func exclusively<T>(_ body: () throws -> T) rethrows -> T { try transition.withLock { try body() } }

    /// Parks a list, in its order, and closes connections until none is open.
    ///
    /// - Parameters:
    ///   - deadline: when to return at the latest, or soon after.
    ///   - isCalledOff: polled during parking. If it returns true, parking stops with what is closed already.
    /// - returns: the connections that are open at the deadline, and why.
    func park(
        _ parkables: [any Parkable],
        until deadline: Nanoseconds,
        isCalledOff: () -> Bool
    ) -> [HeldConnection] {
        isWanted.store(true, ordering: .sequentiallyConsistent)
        // Another thread has held the lock until the deadline.
        guard transition.lock(until: deadline) else { return [HeldConnection(use: .reading)] }
        defer { transition.unlock() }
        // `unpark` was called meanwhile.
        guard isWanted.load(ordering: .sequentiallyConsistent) else { return [] }
        for parkable in parkables { parkable.willPark() }
        return close(parkables, until: deadline) {
            isCalledOff() || !isWanted.load(ordering: .sequentiallyConsistent)
        }
    }

    private func close(
        _ parkables: [any Parkable],
        until deadline: Nanoseconds,
        isCalledOff: () -> Bool
    ) -> [HeldConnection] {
        let time = deadline.subtractingSaturating(MonotonicClock.now)
        let lead = min(Self.interruption.lead, time / 2)
        var parked = 0
        while true {
            while parked < parkables.count {
                let mayPark = !parkables[..<parked].contains { $0.needsLaterOnes } || MonotonicClock.now >= deadline
                guard mayPark, parkables[parked].park() else { break }
                parked += 1
            }
            let waiting = parkables[parked...]
            let held = parkables[..<parked].flatMap { $0.stepParking() } + waiting.map { HeldConnection(use: $0.use) }
            if held.isEmpty || isCalledOff() { return held }
            let now = MonotonicClock.now
            if deadline.subtractingSaturating(now) <= lead {
                for parkable in parkables { parkable.interruptParking() }
            }
            if now >= deadline {
                if !waiting.isEmpty { parkLater(waiting) }
                return held
            }
            MonotonicClock.sleep(min(Self.interruption.interval, deadline - now))
        }
    }

    /// Parks what could not be parked yet, because a connection is being opened, unless `unpark` comes first.
    private func parkLater(_ waiting: ArraySlice<any Parkable>) {
        DetachedThread.startOrQueue { [self] in
            var waiting = waiting
            func hasEnded() -> Bool {
                guard isWanted.load(ordering: .sequentiallyConsistent) else { return true }
                while waiting.first?.park() == true { waiting.removeFirst() }
                return waiting.isEmpty
            }
            while !exclusively(hasEnded) { MonotonicClock.sleep(Self.interruption.interval) }
        }
    }

    /// Takes `park` back, in the reverse order of the list.
    func unpark(_ parkables: [any Parkable]) {
        isWanted.store(false, ordering: .sequentiallyConsistent)
        let isUnparked = exclusively {
            // Another thread wants the list parked again, and will park it.
            if isWanted.load(ordering: .sequentiallyConsistent) { return false }
            for parkable in parkables.reversed() { parkable.unpark() }
            return true
        }
        if isUnparked { for parkable in parkables.reversed() { parkable.didUnpark() } }
    }
}
