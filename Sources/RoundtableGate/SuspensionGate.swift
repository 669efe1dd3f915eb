import Foundation
import RoundtableKernel
import Synchronization

/// The gate of one database, which closes before the system freezes the process (rules F1–F6).
///
/// Each operation that may take a lock for which the system kills the process enters the gate and leaves it: writes, turns of raw
/// handles, opening, closing, checkpoints. No operation enters while the gate is closed.
///
/// ``GateMachine`` decides what happens. The gate runs it under a lock, keeps the waiters and the followers, and does what the
/// machine returns.
///
/// Locks are acquired in this order: `settling`, `interrupting`, `state`, and last those of ``WriteAssertions``, `waits` and
/// `followers`. Followers are called with `settling` or `interrupting`, and may leave the gate, so their locks come before `state`.
/// Neither a follower nor a waiter is called with `state`. `ProcessSuspension` holds a lock during `request`, but not during `open`,
/// which waits for `settling`.
package final class SuspensionGate: Sendable {
    package typealias Interruption = GateMachine.Interruption

    private struct State {
        var machine = GateMachine()
        /// Called at the next change of the gate, or when the last visit has left.
        var waiters: [UInt64: @Sendable () -> Void] = [:]
        var lastWaiter: UInt64 = 0
        var dependents: [WeakGate] = []

        mutating func takeWaiters() -> [@Sendable () -> Void] {
            if waiters.isEmpty { return [] }
            defer { waiters = [:] }
            return Array(waiters.values)
        }
    }

    package let path: String
    private let releasesEverything: Atomic<Bool>
    package let process: ProcessSuspension
    private let report: @Sendable (SuspensionEvent) -> Void
    private let isDiscarded = Atomic(false)
    /// Whether it was reported that a lock is held, since the gate was closed.
    private let hasReportedHeld = Atomic(false)
    /// Ends waits for the turn while the gate is closed.
    package let waits = WaitCancellation()
    private let state = Mutex(State())
    private let followers = Mutex<[WeakFollower]>([])
    /// The machine's `isClosed`, stored under `state`. Each access checks this.
    private let closed = Atomic(false)
    /// The machine's `mustNotCommit`, stored under `state`. Each writing statement checks this.
    private let aborted = Atomic(false)
    /// The number of times that running visits were aborted. Code that may have run inside a visit can thereby detect that its error
    /// may come from the gate.
    package let aborts = Atomic(0)
    /// Whether a wait for a lock was given up because the gate was closed.
    package let hasGivenUp = Atomic(false)
    /// Whether the database is about to be closed, and writes that have not entered are refused.
    private let refusesNewWrites = Atomic(false)
    /// Held from `beginSettling` to `didSettle`, and from `beginOpening` to `didOpen`.
    private let settling = NSLock()
    /// Held while running visits are interrupted. No aborted visit ends meanwhile, so nothing else is interrupted. It is separate
    /// from `state`, because followers need locks of their own. It is recursive, because a raw handle that goes away within
    /// `gateInterruptsWrites` leaves the gate.
    private let interrupting = NSRecursiveLock()

    package init(
        path: String,
        policy: SuspensionPolicy,
        process: ProcessSuspension,
        report: @escaping @Sendable (SuspensionEvent) -> Void = { _ in }
    ) {
        self.report = report
        self.path = path
        releasesEverything = Atomic(policy == .everything)
        self.process = process
        process.add(self)
    }

    deinit {
        process.remove(ObjectIdentifier(self))
        // These visits were left open, and no other code can end them.
        for _ in 0..<state.withLock({ $0.machine.uses }) { process.assertions.endUse() }
    }

    package var policy: SuspensionPolicy { releasesEverything.load(ordering: .acquiring) ? .everything : .writeLocks }

    /// Releases everything from now on, because the readers of this database also hold locks that matter.
    package func releaseEverything() { releasesEverything.store(true, ordering: .releasing) }

    /// Adds a follower, which the gate does not keep alive.
    package func add(_ follower: any GateFollower) {
        followers.withLock { $0.append(WeakFollower(follower: follower)) }
    }

    var presentFollowers: [any GateFollower] { followers.withLock { $0.compactMap(\.follower) } }

    /// Adds the gate of a database of the same process that takes the turns of this one (rule W14). It is suspended and protected with this
    /// one from now on.
    package func add(dependent: SuspensionGate) {
        process.changing.withLock {
            let own = state.withLock { state in
                state.dependents.removeAll { $0.gate == nil }
                state.dependents.append(WeakGate(gate: dependent))
                return state.machine.requests.own
            }
            _ = dependent.request { $0.own = own }
        }
    }

    /// This gate, and those that are suspended with it.
    package var withDependents: [SuspensionGate] {
        let dependents = state.withLock { $0.dependents }
        return dependents.isEmpty ? [self] : [self] + dependents.compactMap(\.gate).flatMap(\.withDependents)
    }

    /// Changes the requests, also those of the dependents.
    ///
    /// - returns: the gates that must be opened.
    func requestAll(_ body: (inout SuspensionRequests) -> Void) -> [SuspensionGate] {
        process.changing.withLock { withDependents.filter { $0.request(body) } }
    }

    /// Whether the gate is closed.
    package var isClosed: Bool { closed.load(ordering: .acquiring) }

    /// Whether a running visit must end without a commit.
    package var isAborted: Bool { aborted.load(ordering: .acquiring) }

    // Rule F9: *Shutdown.* A participant that shuts down refuses all writes and turns that are not inside of the gate, for good, those too
    // that wait before a closed one. Reads continue. What is inside may end within a grace; then it is aborted as by a suspension. Then a
    // checkpoint that is due is made (rules K), and the database is closed (P5). Nothing of this is shared with other participants.

    /// Refuses writes and turns that have not entered, for good (rule F9).
    package func refuseNewWrites() { refusesNewWrites.store(true, ordering: .sequentiallyConsistent) }

    package var isShuttingDown: Bool { refusesNewWrites.load(ordering: .relaxed) }

    /// Waits until no visit is inside, and neither closes nor opens the gate.
    ///
    /// - returns: whether there is none.
    package func waitUntilEmpty(until deadline: Nanoseconds) -> Bool {
        wait(until: deadline) { $0.visits.isEmpty }
    }

    private func wait(until deadline: Nanoseconds, for condition: (GateMachine) -> Bool) -> Bool {
        while true {
            let semaphore = MonotonicSemaphore()
            let id = onChange { semaphore.signal() }
            defer { cancel(id) }
            if state.withLock({ condition($0.machine) }) { return true }
            guard MonotonicClock.now < deadline else { return false }
            _ = semaphore.wait(until: deadline)
        }
    }

    // MARK: Entering

    /// Enters the gate.
    ///
    /// - parameter isRunning: whether the operation runs immediately. Otherwise the caller calls `start` later.
    /// - returns: the visit, which `leave` ends; nil when the gate is closed.
    package func enter(_ kind: SuspensionReport.Access.Kind, at site: CallSite?, isRunning: Bool) -> UInt64? {
        if isClosed { return nil }
        let needsAssertion = kind != .checkpoint || !process.hasNotices
        let id = state.withLock {
            $0.machine.enter(kind, site: site, isRunning: isRunning && !needsAssertion, at: MonotonicClock.now)
        }
        guard let id else { return nil }
        // Later interruptions find the visit. An interruption that has already begun ends before this continues.
        if kind == .closing { interrupting.withLock {} }
        if isRunning, needsAssertion, start(id) == nil {
            leave(id)
            return nil
        }
        return id
    }

    /// Marks a visit as running. This requests an assertion from the system, which may take a while.
    ///
    /// - returns: the time of the start; nil when the gate was closed meanwhile, and the caller must leave. It is also closed because of a
    ///   refusal (rule F5b).
    package func start(_ id: UInt64) -> Nanoseconds? {
        // A visit that comes too late requests no assertion.
        let isInTime = process.assertions.beginUse(unless: { isToBeClosed })
        let started: Nanoseconds? = state.withLock { state in
            let now = MonotonicClock.now
            return isInTime && state.machine.start(id, at: now) ? now : nil
        }
        if started == nil { process.assertions.endUse() }
        // Leaving ends the use.
        return started != nil && mustNotBegin ? nil : started
    }

    /// Whether a visit must not take its first lock, because the process may be frozen without notice (rule F5b). The machine must know
    /// already that the visit runs: if the assertion expires after this, the visit is aborted.
    private var mustNotBegin: Bool { process.assertions.isMissing && !process.mayBeginUnprotected() }

    /// Leaves the gate. Further calls do nothing.
    ///
    /// - parameter interruption: how the gate has ended the visit.
    package func leave(_ id: UInt64, _ interruption: Interruption? = nil) {
        let left = remove(id, interruption) ?? interrupting.withLock { remove(id, interruption, evenIfAborted: true) }
        guard let (departure, waiters, event) = left else { return }
        if let event, !isDiscarded.load(ordering: .relaxed) { report(event) }
        waiters.forEach { $0() }
        if departure.mustSettle { settleLater(endingUse: departure.endsUseAfterSettling) }
    }

    /// - returns: nil when the visit is aborted, and must not leave yet.
    private func remove(
        _ id: UInt64,
        _ interruption: Interruption?,
        evenIfAborted: Bool = false
    ) -> (GateMachine.Departure, waiters: [@Sendable () -> Void], SuspensionEvent?)? {
        state.withLock { state in
            let access = interruption == nil ? nil : state.machine.access(id, at: MonotonicClock.now)
            guard let departure = state.machine.leave(id, interruption, evenIfAborted: evenIfAborted) else {
                return nil
            }
            if evenIfAborted { aborted.store(state.machine.mustNotCommit, ordering: .releasing) }
            if departure.endsUse { process.assertions.endUse() }
            let event: SuspensionEvent? = access.map { access in
                interruption == .partly ? .interrupted(access) : .rolledBack(access)
            }
            return (departure, departure.wakesWaiters ? state.takeWaiters() : [], event)
        }
    }

    /// The running write.
    package var running: SuspensionReport.Access? {
        state.withLock { $0.machine.running }?.access(at: MonotonicClock.now)
    }

    // MARK: Waiting

    /// Blocks until the gate is open.
    package func waitUntilOpen() { _ = wait(until: .max) { !$0.isClosed } }

    package func waitUntilOpen() async throws {
        while isClosed {
            try Task.checkCancellation()
            let change = Latch<Void>()
            let id = onChange { change.set() }
            if !isClosed { change.set() }
            await withTaskCancellationHandler {
                await change.value
            } onCancel: {
                change.set()
            }
            cancel(id)
        }
        try Task.checkCancellation()
    }

    /// Calls `body` once, soon after `isClosed` changes or the last visit ends.
    package func onChange(_ body: @escaping @Sendable () -> Void) -> UInt64 {
        state.withLock { state in
            state.lastWaiter += 1
            state.waiters[state.lastWaiter] = body
            return state.lastWaiter
        }
    }

    /// - returns: false when the waiter was called already.
    @discardableResult
    package func cancel(_ waiter: UInt64) -> Bool { state.withLock { $0.waiters.removeValue(forKey: waiter) != nil } }

    // MARK: Opening and closing

    /// Changes the requests, also those of the dependents. If this opens the gate, everything that belongs to opening has happened on return.
    /// If it closes the gate, the visits are still inside.
    package func change(_ body: (inout SuspensionRequests) -> Void) {
        for gate in requestAll(body) { gate.open() }
    }

    /// Closes the gate for good, and aborts what runs inside, without waiting for it. It is no suspension, so none is reported.
    package func discard() {
        isDiscarded.store(true, ordering: .sequentiallyConsistent)
        _ = request { $0.own.isSuspended = true }
        abort()
        DetachedThread.startOrQueue { [self] in
            // One interruption is not enough, because a statement may be about to begin.
            while !waitUntilEmpty(until: MonotonicClock.now &+ 1_000_000) { interrupt() }
        }
    }

    /// The first step of `change`: closes the gate immediately, if the requests say so now.
    ///
    /// - returns: whether `open` must be called.
    func request(_ body: (inout SuspensionRequests) -> Void) -> Bool {
        let (effect, waiters): (_, [@Sendable () -> Void]) = state.withLock { state in
            let effect = state.machine.changeRequests(body)
            guard effect == .closed else { return (effect, []) }
            closed.store(true, ordering: .releasing)
            waits.cancel()
            return (effect, state.takeWaiters())
        }
        waiters.forEach { $0() }
        return effect == .mustOpen
    }

    /// Ends the gate after the database was closed. Waiters find that out by themselves.
    package func abandon() {
        process.remove(ObjectIdentifier(self))
        let waiters = state.withLock { state in
            state.machine.abandon()
            return didOpen(&state)
        }
        waiters.forEach { $0() }
    }

    /// - returns: the waiters, which the caller calls without the lock.
    private func didOpen(_ state: inout State) -> [@Sendable () -> Void] {
        waits.reset()
        hasReportedHeld.store(false, ordering: .relaxed)
        closed.store(false, ordering: .releasing)
        return state.takeWaiters()
    }

    /// Whether a protected access of this database runs that the system backs.
    var hasBackedProtection: Bool {
        state.withLock { $0.machine.requests.own.protections.values.contains(where: \.isBacked) }
    }

    /// Whether the requests say that the gate must be closed. `isClosed` may still differ.
    package var isToBeClosed: Bool { state.withLock { $0.machine.requests.isClosed } }

    /// Opens the gate, unless it must be closed again.
    func open() {
        settling.lock()
        switch state.withLock({ $0.machine.beginOpening() }) {
        case .none: return settling.unlock()
        case .notifyFollowers: for follower in presentFollowers { follower.gateWillOpen() }
        case .atOnce: break
        }
        let waiters = state.withLock { state in state.machine.didOpen() ? didOpen(&state) : nil }
        settling.unlock()
        // The gate was closed again meanwhile, by a thread that may not have waited for this.
        if let waiters { waiters.forEach { $0() } } else { settleLater() }
    }

    // MARK: Closing

    /// Waits until all visits have left or committed.
    ///
    /// - returns: whether they have; also true when the gate is open.
    func drain(until deadline: Nanoseconds) -> Bool { wait(until: deadline) { $0.isDrained } }

    /// Aborts the running visits: they end with their next statement, without a commit.
    package func abort() {
        let isNeeded = state.withLock { state in
            defer { aborted.store(state.machine.mustNotCommit, ordering: .releasing) }
            return state.machine.abort()
        }
        guard isNeeded else { return }
        aborts.add(1, ordering: .acquiringAndReleasing)
        for follower in presentFollowers { follower.gateWillAbort() }
        interrupt()
    }

    func interrupt() {
        let followers = presentFollowers
        interrupting.withLock {
            let (writes, checkpoint) = state.withLock { $0.machine.interruptions }
            if writes { for follower in followers { follower.gateInterruptsWrites() } }
            if checkpoint { for follower in followers { follower.gateInterruptsCheckpoint() } }
        }
    }

    /// Completes closing after `drain`, and returns the result. The followers release what no visit holds.
    func settle(until deadline: Nanoseconds, since began: Nanoseconds) -> SuspensionReport {
        let outcome: SuspensionReport.Outcome
        if settling.lock(until: max(deadline, MonotonicClock.now).addingSaturating(1_000_000)) {
            defer { settling.unlock() }
            outcome = settle(until: deadline)
        } else {
            // Another thread opens or settles the gate. It will see that the gate must be closed.
            let held = SuspensionReport.Access(kind: .opening, callSite: nil, duration: .zero)
            outcome = state.withLock { self.outcome($0, holding: held) }
        }
        return SuspensionReport(
            path: path,
            outcome: outcome,
            duration: .nanoseconds(Int64(clamping: MonotonicClock.now.subtractingSaturating(began)))
        )
    }

    /// Reports, once until the gate opens, that an access holds a lock.
    func reportIfHeld(_ outcome: SuspensionReport.Outcome) {
        if case .held(let access) = outcome, !isDiscarded.load(ordering: .relaxed),
            !hasReportedHeld.exchange(true, ordering: .relaxed)
        {
            report(.held(access))
        }
    }

    /// Must be called with `settling`.
    private func settle(until deadline: Nanoseconds) -> SuspensionReport.Outcome {
        let known: SuspensionReport.Outcome? = state.withLock { state in
            switch state.machine.beginSettling() {
            case .none: outcome(state, holding: nil)
            case .held(let visit): outcome(state, holding: visit.access(at: MonotonicClock.now))
            case .notifyFollowers: nil
            }
        }
        if let known { return known }
        let accesses = presentFollowers.flatMap { $0.gateDidClose(self, until: deadline) }
        // A write is named before a read, because the system kills a process that holds its lock.
        let held = accesses.first { $0.kind == .write } ?? accesses.first
        return state.withLock { state in
            state.machine.didSettle(isHeld: held != nil)
            return outcome(state, holding: held)
        }
    }

    private func outcome(_ state: State, holding held: SuspensionReport.Access?) -> SuspensionReport.Outcome {
        let isProtecting = held != nil && process.assertions.isProtecting
        return state.machine.outcome(holding: held, isProtecting: isProtecting, at: MonotonicClock.now)
    }

    private func settleLater(endingUse: Bool = false) {
        DetachedThread.startOrQueue { [self] in
            let now = MonotonicClock.now
            reportIfHeld(settle(until: now &+ 100_000_000, since: now).outcome)
            if endingUse { process.assertions.endUse() }
            process.assertions.endIfIdle()
        }
    }

    // MARK: The running write

    /// Sets the line of code that a visit runs now.
    package func show(_ site: CallSite?, of id: UInt64) { state.withLock { $0.machine.show(site, of: id) } }

    /// Notes that the running write has committed. Its observers are not interrupted.
    package func runningDidCommit() {
        let waiters = state.withLock { state in state.machine.runningDidCommit() ? state.takeWaiters() : [] }
        waiters.forEach { $0() }
    }

    /// Called when the write is about to take a lock after its commit, for a step that can be left out (rule K6). If the gate is
    /// open, the write counts as inside again, so that a later closing waits for the step.
    ///
    /// - returns: false when the gate is closed: the step must not begin.
    package func runningMayBeginStep() -> Bool { state.withLock { $0.machine.runningMayBeginStep() } && !mustNotBegin }

    /// Notes that the write writes again after its commit, in its observers or its completion.
    ///
    /// - returns: whether the gate is closed.
    @discardableResult
    package func runningContinues() -> Bool { state.withLock { $0.machine.runningContinues() } }

    /// Aborts the running write if the process may be frozen without notice. Called after `runningContinues`.
    package func abortIfUnprotected() {
        if mustNotBegin { abort() }
    }
}

struct WeakGate: Sendable {
    weak var gate: SuspensionGate?
}

private struct WeakFollower: Sendable {
    weak var follower: (any GateFollower)?
}
