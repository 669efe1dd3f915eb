import Dispatch
import Foundation
import RoundtableKernel
import Synchronization

/// All gates of a process, and the requests for all of them (rules F1, F5).
package final class ProcessSuspension: Sendable {
    package static let shared = ProcessSuspension { PlatformLifecycle.givesNotices }

    private struct State {
        /// The requests for all gates. Its `own` part is unused.
        var requests = SuspensionRequests()
        var gates: [ObjectIdentifier: WeakGate] = [:]
        /// How many expiries are being handled, and how many have begun.
        var expiries = 0
        var begunExpiries = 0
        var nextID = 0
    }

    package let assertions = WriteAssertions()
    private let state = Mutex(State())
    /// Held during a change of all gates, or of one and those that are suspended with it, so that changes reach them in the order in which
    /// they were made.
    let changing = NSRecursiveLock()
    private let timeToRollBack: Nanoseconds?
    private let givesNotices: @Sendable () -> Bool

    /// - Parameters:
    ///   - timeToRollBack: how long before the deadline of a suspension running accesses are aborted; nil: a fifth of the time, and at most
    ///     100 ms. Tests pass a long time, so that a machine that pauses does not make them late.
    ///   - givesNotices: whether the system notifies this process before it freezes it, at this moment.
    package init(timeToRollBack: Nanoseconds? = nil, givesNotices: @escaping @Sendable () -> Bool = { true }) {
        (self.timeToRollBack, self.givesNotices) = (timeToRollBack, givesNotices)
        assertions.onExpiry = { [weak self] timeLeft in
            self?.expire(in: timeLeft)
            self?.assertions.drop()
        }
    }

    // MARK: Gates

    func add(_ gate: SuspensionGate) {
        changing.withLock {
            let requests = state.withLock { state in
                state.gates[ObjectIdentifier(gate)] = WeakGate(gate: gate)
                return state.requests
            }
            _ = gate.request { $0.take(requests) }
        }
    }

    func remove(_ gate: ObjectIdentifier) { state.withLock { $0.gates[gate] = nil } }

    private var gates: [SuspensionGate] { state.withLock { $0.gates.values.compactMap(\.gate) } }

    /// Changes the requests. Gates are opened after the change is complete, so that threads that close other gates do not wait
    /// for that.
    ///
    /// - parameter expiries: how many expiries have begun, if the change is only right when no other one has; nil: it always is.
    private func change(unlessExpiredAfter expiries: Int? = nil, _ body: (inout SuspensionRequests) -> Void) {
        let opened = changing.withLock {
            let (requests, gates) = state.withLock { state in
                if expiries.map({ $0 == state.begunExpiries }) ?? true { body(&state.requests) }
                return (state.requests, state.gates.values.compactMap(\.gate))
            }
            return gates.filter { gate in gate.request { $0.take(requests) } }
        }
        for gate in opened { gate.open() }
    }

    /// Whether a notice precedes a freeze. Otherwise, only an assertion keeps the process from being frozen inside an access (rule F5b).
    var hasNotices: Bool { assertions.provider == nil || givesNotices() }

    package var isSuspended: Bool { state.withLock { $0.requests.process.isSuspended } }
    private var isExpired: Bool { state.withLock { $0.requests.isExpired } }

    // MARK: Suspending

    /// The first step of suspending: no new access begins. It does not wait for running accesses.
    package func close() {
        change { $0.process.isSuspended = true }
        dropUnbackedProtections()
    }

    /// Ends the protections that the system does not back, including those of single databases.
    private func dropUnbackedProtections() {
        change { $0.dropUnbackedProtections() }
        changing.withLock { for gate in gates { _ = gate.request { $0.dropUnbackedProtections() } } }
    }

    @discardableResult
    package func suspend(until deadline: Nanoseconds) -> [SuspensionReport] {
        let began = MonotonicClock.now
        close()
        defer { assertions.endIfIdle(until: deadline) }
        return close(gates, until: deadline, since: began)
    }

    package func resume() {
        change { requests in
            requests.process.isSuspended = false
            requests.isExpired = false
        }
    }

    /// Closes all gates until `endStop()`, regardless of other requests.
    @discardableResult
    package func stop(until deadline: Nanoseconds) -> [SuspensionReport] {
        let began = MonotonicClock.now
        change { $0.isStopping = true }
        defer { assertions.endIfIdle(until: deadline) }
        return close(gates, until: deadline, since: began, givingTime: false)
    }

    package func endStop() { change { $0.isStopping = false } }

    package func suspend(_ gate: SuspensionGate, until deadline: Nanoseconds) -> SuspensionReport {
        let began = MonotonicClock.now
        _ = gate.requestAll { requests in
            requests.own.isSuspended = true
            requests.own.protections = requests.own.protections.filter { $0.value.isBacked }
        }
        defer { assertions.endIfIdle(until: deadline) }
        let reports = close(gate.withDependents, until: deadline, since: began)
        return reports.first { !$0.isReleased } ?? reports.first { $0.outcome != .released } ?? reports[0]
    }

    /// Closes all gates because the system takes an assertion back, which the caller ends then. The remaining time is the same
    /// for all gates.
    private func expire(in timeLeft: Duration) {
        let began = MonotonicClock.now
        state.withLock { state in
            state.expiries += 1
            state.begunExpiries += 1
        }
        defer { state.withLock { $0.expiries -= 1 } }
        change { requests in
            requests.process.protections = [:]
            requests.isExpired = true
        }
        changing.withLock { for gate in gates { _ = gate.request { $0.own.protections = [:] } } }
        _ = close(gates, until: began.addingSaturating(timeLeft.nanoseconds), since: began)
        askAgainLater()
    }

    // Rule F5b: *No notice, no lock without an assertion.* Where the system grants assertions, and the process is not in the foreground of
    // an app, nothing takes its first lock without an assertion that holds; it is checked again after a commit. Within a protected access
    // that was granted, a write needs none of its own. If the system refuses, the visit leaves, and all gates are closed until the process
    // is resumed or the system grants one, which is requested each second, but not while an expiry is handled. If a renewal is refused, the
    // earlier assertion counts until it expires.

    /// Decides whether an access may begin to which the system has refused an assertion (rule F5b). If not, all gates are closed until the
    /// system grants one.
    func mayBeginUnprotected() -> Bool {
        // An assertion keeps the whole process from being frozen, whatever it was requested for.
        if hasNotices || gates.contains(where: \.hasBackedProtection) { return true }
        var (isBacked, isFirst) = (false, false)
        change { requests in
            isBacked = requests.process.protections.values.contains(where: \.isBacked)
            if isBacked { return }
            isFirst = !requests.isExpired
            requests.isExpired = true
        }
        guard isFirst else { return isBacked }
        // The access that was refused is still inside, and ends when this function has returned.
        DetachedThread.startOrQueue { [self] in
            let now = MonotonicClock.now
            _ = close(gates, until: now &+ Self.longestRollback, since: now)
            askAgainLater()
        }
        return false
    }

    /// Opens the gates when the system grants another assertion. Otherwise, an expired assertion would keep the gates closed for
    /// ever in a process that does not suspend and resume its databases.
    private func askAgainLater() {
        DispatchQueue.global().asyncAfter(deadline: .now() + .seconds(1)) { [weak self] in
            guard let self, isExpired, !isSuspended else { return }
            let (expiries, begun) = state.withLock { ($0.expiries, $0.begunExpiries) }
            // What is inside has not been aborted yet.
            if expiries > 0 { return askAgainLater() }
            guard let provider = assertions.provider else { return change { $0.isExpired = false } }
            guard let assertion = request("Roundtable", of: provider) else { return askAgainLater() }
            // What was aborted may still be inside, with its lock.
            if !assertions.take(assertion, unless: { assertion.hasExpired }) { assertion.end() }
            change(unlessExpiredAfter: begun) { $0.isExpired = false }
        }
    }

    /// Requests an assertion whose expiry closes all gates.
    ///
    /// - returns: nil when the system refuses.
    private func request(_ name: String, of provider: any SuspensionAssertions) -> EndedOnce? {
        let granted = EndedOnce()
        let answer = provider.begin(name) { [weak self] timeLeft in
            granted.expire()
            self?.assertions.expire(granted)
            self?.expire(in: timeLeft)
            granted.end()
            // Writes may have taken it over.
            self?.assertions.drop()
        }
        guard let answer else { return nil }
        granted.set(answer)
        return granted
    }

    // MARK: Draining

    /// Waits for the visits inside the gates, interrupts them before the deadline, and returns the results. Visits to which the
    /// system gives more time are not interrupted.
    private func close(
        _ gates: [SuspensionGate],
        until deadline: Nanoseconds,
        since began: Nanoseconds,
        givingTime: Bool = true
    ) -> [SuspensionReport] {
        let time = deadline.subtractingSaturating(began)
        let toRollBack = timeToRollBack ?? min(max(time / 5, Self.shortestRollback), Self.longestRollback)
        var lastCall = deadline.subtractingSaturating(toRollBack)
        // The caller may be the main thread, which need not wait for writes to which the system gives time.
        if givingTime, assertions.isProtecting { lastCall = min(lastCall, began &+ Self.courtesy) }
        let remaining = gates.filter { !$0.drain(until: lastCall) }
        if !remaining.isEmpty, !givingTime || !assertions.isProtecting {
            for gate in remaining { gate.abort() }
            while !remaining.allSatisfy({ $0.drain(until: 0) }), MonotonicClock.now < deadline {
                // One interruption is not enough, because a statement may be about to begin while no other keeps the interruption
                // alive.
                for gate in remaining {
                    gate.interrupt()
                    _ = gate.drain(until: min(deadline, MonotonicClock.now &+ 1_000_000))
                }
            }
        }
        return gates.map { gate in
            var report = gate.settle(until: deadline, since: began)
            // A write that had committed may write again after its gate was found drained. Its thread has aborted it, so it ends.
            while case .held = report.outcome, !givingTime || !assertions.isProtecting, MonotonicClock.now < deadline {
                gate.interrupt()
                _ = gate.drain(until: min(deadline, MonotonicClock.now &+ 1_000_000))
                report = gate.settle(until: deadline, since: began)
            }
            gate.reportIfHeld(report.outcome)
            return report
        }
    }

    private static let courtesy: Nanoseconds = 50_000_000
    private static let shortestRollback: Nanoseconds = 2_000_000
    private static let longestRollback: Nanoseconds = 100_000_000

    // MARK: Protected accesses

    /// A running protected access.
    package struct Protection: Sendable {
        fileprivate let id: Int
        fileprivate let gate: SuspensionGate?
        fileprivate let assertion: EndedOnce?
    }

    /// - parameter gate: nil for all databases of the process.
    /// - returns: nil when the system refuses the assertion although nothing is suspended, so that there is nothing to open.
    /// - throws: ``AssertionRefused`` if something is suspended, or the process has no notices (rule F5b).
    package func beginProtection(_ name: String, of gate: SuspensionGate?) throws -> Protection? {
        let id = state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
        var assertion: EndedOnce?
        if let provider = assertions.provider {
            assertion = request(name, of: provider)
            if assertion == nil {
                let isClosed = gate?.isClosed ?? (isSuspended || isExpired)
                if !isClosed, hasNotices { return nil }
                throw AssertionRefused(name: name)
            }
        }
        let protector = SuspensionRequests.Protector(name: name, isBacked: assertion != nil)
        var hasExpired = false
        change { requests in
            // The assertion may have been taken back before it is used here. Its expiry sets this flag first.
            hasExpired = assertion?.hasExpired == true
            if hasExpired { return }
            requests.isExpired = false
            if gate == nil { requests.process.protections[id] = protector }
        }
        if !hasExpired {
            gate?.change { requests in
                hasExpired = assertion?.hasExpired == true
                if !hasExpired { requests.own.protections[id] = protector }
            }
        }
        if hasExpired {
            assertion?.end()
            throw AssertionRefused(name: name)
        }
        return Protection(id: id, gate: gate, assertion: assertion)
    }

    /// Ends a protected access: closes the gates that it has opened, and waits for the visits inside.
    ///
    /// - parameter grace: the time for the visits inside, if the system gives none.
    package func endProtection(_ protection: Protection, grace: Nanoseconds) {
        let began = MonotonicClock.now
        if let gate = protection.gate {
            gate.change { $0.own.protections[protection.id] = nil }
        } else {
            change { $0.process.protections[protection.id] = nil }
        }
        _ = close(protection.gate?.withDependents ?? gates, until: began.addingSaturating(grace), since: began)
        if let assertion = protection.assertion, !assertions.take(assertion, unless: { assertion.hasExpired }) {
            assertion.end()
        }
        assertions.endIfIdle()
    }
}

/// An assertion that may expire before the system has returned it.
private final class EndedOnce: SuspensionAssertion {
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
            defer { state = (nil, true) }
            return state.assertion
        }
        assertion?.end()
    }
}

extension SuspensionRequests {
    fileprivate mutating func take(_ all: SuspensionRequests) {
        process = all.process
        isExpired = all.isExpired
        isStopping = all.isStopping
    }
}
