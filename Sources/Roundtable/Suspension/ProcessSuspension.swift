import Dispatch
import Foundation
import RoundtableKernel
import Synchronization

/// All gates of a process, and what is asked of them together (rules F1, F5).
package final class ProcessSuspension: Sendable {
    package static let shared = ProcessSuspension()

    private struct State {
        /// What is wanted of all; their own is nobody's.
        var wishes = GateState()
        var gates: [ObjectIdentifier: WeakGate] = [:]
        var nextID = 0
    }

    private struct WeakGate {
        weak var gate: SuspensionGate?
    }

    package let assertions = WriteAssertions()
    private let state = Mutex(State())
    /// Changes reach all gates in the order in which they were made.
    private let changing = NSRecursiveLock()

    package init() {
        assertions.onExpiry = { [weak self] timeLeft in
            self?.expire(in: timeLeft)
            self?.assertions.drop()
        }
    }

    // MARK: Gates

    func add(_ gate: SuspensionGate) {
        changing.withLock {
            let wishes = state.withLock { state in
                state.gates[ObjectIdentifier(gate)] = WeakGate(gate: gate)
                return state.wishes
            }
            _ = gate.wish { $0.take(wishes) }
        }
    }

    func remove(_ gate: ObjectIdentifier) { state.withLock { $0.gates[gate] = nil } }

    private var gates: [SuspensionGate] { state.withLock { $0.gates.values.compactMap(\.gate) } }

    /// The gates that are opened by that are opened after the change: those that close others do not wait for it.
    private func change(_ body: (inout GateState) -> Void) {
        let opened = changing.withLock {
            let (wishes, gates) = state.withLock { state in
                body(&state.wishes)
                return (state.wishes, state.gates.values.compactMap(\.gate))
            }
            return gates.filter { gate in gate.wish { $0.take(wishes) } }
        }
        for gate in opened { gate.open() }
    }

    package var isSuspended: Bool { state.withLock { $0.wishes.process.isSuspended } }
    private var isExpired: Bool { state.withLock { $0.wishes.isExpired } }

    // MARK: Suspending

    /// The first step of suspending: nothing begins any more. Does not wait for what runs.
    package func close() {
        change { $0.process.isSuspended = true }
        dropUnbackedProtections()
    }

    /// Protections of one database that the system does not back end too.
    private func dropUnbackedProtections() {
        change { $0.dropUnbackedProtections() }
        changing.withLock { for gate in gates { _ = gate.wish { $0.dropUnbackedProtections() } } }
    }

    @discardableResult
    package func suspend(until deadline: Nanoseconds) -> [Suspension] {
        let began = MonotonicClock.now
        close()
        defer { assertions.endIfIdle() }
        return close(gates, until: deadline, since: began)
    }

    package func resume() {
        change { wishes in
            wishes.process.isSuspended = false
            wishes.isExpired = false
        }
    }

    /// Closes the gates whatever else was asked for, and is asked for before `goOn()`.
    @discardableResult
    package func stop(until deadline: Nanoseconds) -> [Suspension] {
        let began = MonotonicClock.now
        change { $0.isStopping = true }
        defer { assertions.endIfIdle() }
        return close(gates, until: deadline, since: began, givingTime: false)
    }

    package func goOn() { change { $0.isStopping = false } }

    func suspend(_ gate: SuspensionGate, until deadline: Nanoseconds) -> Suspension {
        let began = MonotonicClock.now
        _ = gate.wish { wishes in
            wishes.own.isSuspended = true
            wishes.own.protections = wishes.own.protections.filter { $0.value.isBacked }
        }
        defer { assertions.endIfIdle() }
        return close([gate], until: deadline, since: began)[0]
    }

    /// The system takes an assertion back, which the caller ends then: it has the same time for all.
    private func expire(in timeLeft: Duration) {
        let began = MonotonicClock.now
        change { wishes in
            wishes.process.protections = [:]
            wishes.isExpired = true
        }
        for gate in gates { _ = gate.wish { $0.own.protections = [:] } }
        _ = close(gates, until: began.addingSaturating(timeLeft.nanoseconds), since: began)
        askAgainLater()
    }

    /// Where nobody suspends and resumes, an expired assertion would keep the gates closed for ever: until the system grants
    /// another one.
    private func askAgainLater() {
        DispatchQueue.global().asyncAfter(deadline: .now() + .seconds(1)) { [weak self] in
            guard let self, isExpired, !isSuspended else { return }
            guard let provider = assertions.provider else { return change { $0.isExpired = false } }
            if let assertion = provider.begin("Roundtable", onExpiry: { _ in }) {
                change { $0.isExpired = false }
                assertion.end()
            } else {
                askAgainLater()
            }
        }
    }

    // MARK: Draining

    /// Waits for those inside, interrupts them before the deadline, and tells what has come of it. What the system gives more time
    /// is not interrupted.
    private func close(
        _ gates: [SuspensionGate],
        until deadline: Nanoseconds,
        since began: Nanoseconds,
        givingTime: Bool = true
    ) -> [Suspension] {
        let time = deadline.subtractingSaturating(began)
        let toRollBack = min(max(time / 5, Self.shortestRollback), Self.longestRollback)
        var lastCall = deadline.subtractingSaturating(toRollBack)
        // The caller may be the main thread, and need not wait for what the system gives time to.
        if givingTime, assertions.isProtecting { lastCall = min(lastCall, began &+ Self.courtesy) }
        let remaining = gates.filter { !$0.drain(until: lastCall) }
        if !remaining.isEmpty, !givingTime || !assertions.isProtecting {
            for gate in remaining { gate.doom() }
            while !remaining.allSatisfy({ $0.drain(until: 0) }), MonotonicClock.now < deadline {
                // Once is not enough: a statement may be about to begin, where no other keeps the interruption alive.
                for gate in remaining {
                    gate.interrupt()
                    _ = gate.drain(until: min(deadline, MonotonicClock.now &+ 1_000_000))
                }
            }
        }
        return gates.map { $0.settle(until: deadline, since: began) }
    }

    private static let courtesy: Nanoseconds = 50_000_000
    private static let shortestRollback: Nanoseconds = 2_000_000
    private static let longestRollback: Nanoseconds = 100_000_000

    // MARK: Protected accesses

    /// A protected access that runs.
    struct Protection: Sendable {
        fileprivate let id: Int
        fileprivate let gate: SuspensionGate?
        fileprivate let assertion: EndedOnce?
    }

    /// - parameter gate: nil for all of the process.
    /// - returns: nil when the system refuses it although nothing is suspended: then there is nothing to open.
    func beginProtection(_ name: String, of gate: SuspensionGate?) throws -> Protection? {
        let id = state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
        var assertion: EndedOnce?
        if let provider = assertions.provider {
            let granted = EndedOnce()
            assertion = granted
            let answer = provider.begin(name) { [weak self] timeLeft in
                granted.expire()
                self?.expire(in: timeLeft)
                granted.end()
            }
            if let answer {
                granted.set(answer)
            } else {
                let isClosed = gate?.isClosed ?? (isSuspended || isExpired)
                if !isClosed { return nil }
                throw SharedDatabaseError.assertionRefused(name: name)
            }
        }
        let protector = GateState.Protector(name: name, isBacked: assertion != nil)
        var hasExpired = false
        change { wishes in
            // Taken back before it was known: those who expire say so first.
            hasExpired = assertion?.hasExpired == true
            if hasExpired { return }
            wishes.isExpired = false
            if gate == nil { wishes.process.protections[id] = protector }
        }
        if !hasExpired {
            gate?.change { wishes in
                hasExpired = assertion?.hasExpired == true
                if !hasExpired { wishes.own.protections[id] = protector }
            }
        }
        if hasExpired {
            assertion?.end()
            throw SharedDatabaseError.assertionRefused(name: name)
        }
        return Protection(id: id, gate: gate, assertion: assertion)
    }

    /// Closes what it has opened, and waits for those inside.
    ///
    /// - parameter grace: for those inside, where the system gives no time.
    func endProtection(_ protection: Protection, grace: Nanoseconds) {
        let began = MonotonicClock.now
        if let gate = protection.gate {
            gate.change { $0.own.protections[protection.id] = nil }
        } else {
            change { $0.process.protections[protection.id] = nil }
        }
        _ = close(protection.gate.map { [$0] } ?? gates, until: began.addingSaturating(grace), since: began)
        protection.assertion?.end()
        assertions.endIfIdle()
    }
}

/// An assertion whose expiry may come before it is known.
private final class EndedOnce: Sendable {
    private let state = Mutex<(assertion: (any SuspensionAssertion)?, hasEnded: Bool)>((nil, false))
    private let expired = Atomic(false)

    var hasExpired: Bool { expired.load(ordering: .sequentiallyConsistent) }

    func expire() { expired.store(true, ordering: .sequentiallyConsistent) }

    func set(_ assertion: any SuspensionAssertion) {
        let hasEnded = state.withLock { state in
            state.assertion = assertion
            return state.hasEnded
        }
        if hasEnded { assertion.end() }
    }

    func end() {
        let assertion = state.withLock { state in
            state.hasEnded = true
            return state.assertion
        }
        assertion?.end()
    }
}

extension GateState {
    fileprivate mutating func take(_ all: GateState) {
        process = all.process
        isExpired = all.isExpired
        isStopping = all.isStopping
    }
}
