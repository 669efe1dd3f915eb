import Dispatch
import Foundation
import GRDB
import RoundtableKernel
import Synchronization

/// The door of one database that closes before the system freezes the process (rules F1–F6).
///
/// Whatever may take a lock that the system kills for enters here, and leaves: writes, opening, closing. What comes while the
/// gate is closed stays outside.
final class SuspensionGate: Sendable {
    /// One that is inside.
    struct Visit {
        let id: UInt64
        let kind: Suspension.Access.Kind
        let site: CallSite?
        var since: Nanoseconds
        /// Else it waits for the connection, and holds nothing.
        var isRunning: Bool
        /// It has the system's time. A checkpoint is interrupted instead: nothing is lost with it.
        var isInUse: Bool { isRunning && kind != .checkpoint }
        /// It is to be ended, and rolled back.
        var isDoomed = false
        var mustNotCommit: Bool { isDoomed && kind != .checkpoint }
        /// It has committed, and its observers are being notified: it holds no lock that matters, and takes none before it counts as
        /// inside again (rule F2).
        var hasCommitted = false
    }

    /// How a visit ended that the gate has interrupted.
    enum Interruption { case rolledBack, partly }

    private struct State {
        var wishes: GateState
        var visits: [Visit] = []
        var nextID: UInt64 = 0
        /// The last that was ended because of that.
        var interrupted: (visit: Visit, how: Interruption)?
        /// The database is closed: there is nothing to guard, and nobody waits.
        var isAbandoned = false
        /// When the last has left, what closing entails is still to be done: nobody waits for it any more.
        var mustSettle = false
        /// Called at the next change of the gate, or when the last has left.
        var waiters: [UInt64: @Sendable () -> Void] = [:]
    }

    /// What opening and closing entails, in the order in which it happens. Those that interrupt, and `willDoom`, need no lock that is held
    /// across a wait: a suspension would miss its deadline.
    struct Hooks {
        /// Before the first interruption. Takes back what is inside without running.
        var willDoom: @Sendable () -> Void = {}
        /// Interrupts what runs on the writer connection.
        var interrupt: @Sendable () -> Void = {}
        /// Interrupts the checkpoint that runs.
        var interruptCheckpoint: @Sendable () -> Void = {}
        /// The gate is closed, and all have left.
        var didClose: @Sendable (_ deadline: Nanoseconds) -> [Suspension.Access] = { _ in [] }
        /// Before anyone enters again.
        var willOpen: @Sendable () -> Void = {}
    }

    let path: String
    private let releasesEverything: Atomic<Bool>
    let process: ProcessSuspension
    /// Ends waits for the turn while the gate is closed.
    let waits = WaitCancellation()
    private let state: Mutex<State>
    private let hooks = Mutex(Hooks())
    /// Asked by each access.
    private let closed = Atomic(false)
    /// Whether one that runs is doomed: asked by each statement that it writes with.
    private let doomed = Atomic(false)
    /// A wait for a lock was given up because the gate was closed.
    let hasGivenUp = Atomic(false)
    /// What was last done of `didClose` and `willOpen`. Guarded by `settling`, which is held while either runs.
    private enum Settled { case open, partly, closed }
    private let settled = Mutex(Settled.open)
    private let settling = NSLock()
    /// Held while what runs is interrupted. No doomed visit ends meanwhile, so nothing else is interrupted. Apart from `state`, because hooks need
    /// locks of their own; recursive, because a raw handle that goes away within a hook leaves the gate.
    private let interrupting = NSRecursiveLock()

    init(path: String, policy: SuspensionPolicy, process: ProcessSuspension) {
        self.path = path
        releasesEverything = Atomic(policy == .everything)
        self.process = process
        state = Mutex(State(wishes: GateState()))
        process.add(self)
    }

    deinit {
        process.remove(ObjectIdentifier(self))
        // Left open, and nobody is there to end it.
        for visit in state.withLock({ $0.visits }) where visit.isInUse { process.assertions.endUse() }
    }

    var policy: SuspensionPolicy { releasesEverything.load(ordering: .acquiring) ? .everything : .writeLocks }

    /// The database is one whose readers, too, hold locks that matter.
    func releaseEverything() { releasesEverything.store(true, ordering: .releasing) }

    func hook(_ change: (inout Hooks) -> Void) { hooks.withLock { change(&$0) } }

    /// Whether nobody may enter now.
    var isClosed: Bool { closed.load(ordering: .acquiring) }

    /// Whether what runs inside shall end without a commit.
    var isDoomed: Bool { doomed.load(ordering: .acquiring) }

    // MARK: Entering

    /// - parameter isRunning: else `start` comes later.
    /// - returns: what to give to `leave`; nil when the gate is closed.
    func enter(_ kind: Suspension.Access.Kind, at site: CallSite?, isRunning: Bool) -> UInt64? {
        if isClosed { return nil }
        let id: UInt64? = state.withLock { state in
            guard !state.wishes.isClosed else { return nil }
            state.nextID += 1
            state.visits.append(
                Visit(
                    id: state.nextID,
                    kind: kind,
                    site: site,
                    since: MonotonicClock.now,
                    isRunning: isRunning && kind == .checkpoint
                )
            )
            return state.nextID
        }
        guard let id else { return nil }
        // Later interruptions find the visit; one that has begun before ends.
        if kind == .closing { interrupting.withLock {} }
        if isRunning, kind != .checkpoint, start(id) == nil {
            leave(id)
            return nil
        }
        return id
    }

    /// The visit's turn has come. Asks the system for an assertion, which may take it a while.
    ///
    /// - returns: when that was; nil when the gate was closed meanwhile: leave.
    func start(_ id: UInt64) -> Nanoseconds? {
        process.assertions.beginUse()
        let started: Nanoseconds? = state.withLock { state in
            guard !state.wishes.isClosed, let index = state.visits.lastIndex(where: { $0.id == id }) else {
                return nil
            }
            let now = MonotonicClock.now
            state.visits[index].isRunning = true
            state.visits[index].since = now
            return now
        }
        if started == nil { process.assertions.endUse() }
        return started
    }

    /// A second time, it does nothing.
    ///
    /// - parameter interruption: how the gate has ended it.
    func leave(_ id: UInt64, _ interruption: Interruption? = nil) {
        let left = remove(id, interruption) ?? interrupting.withLock { remove(id, interruption, evenIfDoomed: true) }
        guard let left else { return }
        left.waiters.forEach { $0() }
        if left.mustSettle { settleLater(endingUse: left.wasInUse) }
    }

    /// What is to be done when a visit has left.
    private struct Left {
        var waiters: [@Sendable () -> Void] = []
        var mustSettle = false
        var wasInUse = false
    }

    /// - returns: nil when the visit is doomed, and was not to leave then.
    private func remove(_ id: UInt64, _ interruption: Interruption?, evenIfDoomed: Bool = false) -> Left? {
        state.withLock { state in
            guard let index = state.visits.firstIndex(where: { $0.id == id }) else { return Left() }
            if state.visits[index].isDoomed, !evenIfDoomed { return nil }
            let visit = state.visits.remove(at: index)
            if let interruption { state.interrupted = (visit, interruption) }
            if visit.isDoomed { doomed.store(state.visits.contains(where: \.mustNotCommit), ordering: .releasing) }
            let isLast = state.visits.isEmpty
            let mustSettle = isLast && state.mustSettle
            // Whoever suspends ends the assertion when nobody uses it: not before that is so may it be seen that all have left. Where
            // something is still to be given up, the system's time is needed until then.
            if visit.isInUse, !mustSettle { process.assertions.endUse() }
            guard isLast else { return Left() }
            state.mustSettle = false
            return Left(waiters: Self.takeWaiters(&state), mustSettle: mustSettle, wasInUse: visit.isInUse)
        }
    }

    /// The write that runs.
    var running: Suspension.Access? {
        state.withLock { state in state.visits.first { $0.kind == .write && $0.isRunning }.map(\.access) }
    }

    // MARK: Waiting

    /// Blocks until the gate is open.
    func waitUntilOpen() {
        while isClosed {
            let semaphore = DispatchSemaphore(value: 0)
            let id = onChange { semaphore.signal() }
            if isClosed { semaphore.wait() } else { cancel(id) }
        }
    }

    func waitUntilOpen() async throws {
        while isClosed {
            try Task.checkCancellation()
            let wakeUp = WakeUp()
            let id = onChange { wakeUp.signal() }
            if !isClosed { wakeUp.signal() }
            await withTaskCancellationHandler {
                await wakeUp.wait()
            } onCancel: {
                wakeUp.signal()
            }
            cancel(id)
        }
        try Task.checkCancellation()
    }

    /// Calls `body` soon after `isClosed` changes, or the last visit ends; once.
    func onChange(_ body: @escaping @Sendable () -> Void) -> UInt64 {
        state.withLock { state in
            state.nextID += 1
            state.waiters[state.nextID] = body
            return state.nextID
        }
    }

    /// - returns: false when it was called already.
    @discardableResult
    func cancel(_ waiter: UInt64) -> Bool { state.withLock { $0.waiters.removeValue(forKey: waiter) != nil } }

    private static func takeWaiters(_ state: inout State) -> [@Sendable () -> Void] {
        if state.waiters.isEmpty { return [] }
        defer { state.waiters = [:] }
        return Array(state.waiters.values)
    }

    // MARK: Opening and closing

    /// Changes who wants what. When this opens the gate, all that belongs to it has happened on return; when it closes it, those
    /// inside are still there.
    func change(_ body: (inout GateState) -> Void) {
        if wish(body) { open() }
    }

    /// The first step: closes the gate at once, if that is what is wanted now.
    ///
    /// - returns: whether `open` is to be called.
    func wish(_ body: (inout GateState) -> Void) -> Bool {
        let (mustOpen, waiters) = state.withLock { state in
            let wasClosed = state.wishes.isClosed
            if state.isAbandoned { return (false, [@Sendable () -> Void]()) }
            body(&state.wishes)
            let isClosed = state.wishes.isClosed
            guard !wasClosed, isClosed else { return (wasClosed && !isClosed, [@Sendable () -> Void]()) }
            state.interrupted = nil
            closed.store(true, ordering: .releasing)
            waits.cancel()
            return (false, Self.takeWaiters(&state))
        }
        waiters.forEach { $0() }
        return mustOpen
    }

    /// The database was closed. What waits at the gate finds that out.
    func abandon() {
        process.remove(ObjectIdentifier(self))
        let waiters = state.withLock { state in
            state.isAbandoned = true
            state.wishes = GateState()
            waits.reset()
            closed.store(false, ordering: .releasing)
            return Self.takeWaiters(&state)
        }
        waiters.forEach { $0() }
    }

    /// Whether the gate is closed, or about to be opened no more.
    var isToBeClosed: Bool { state.withLock { $0.wishes.isClosed } }

    /// Opens the gate, unless that is not wanted any more.
    func open() {
        settling.lock()
        if isToBeClosed { return settling.unlock() }
        if settled.withLock({ $0 }) != .open {
            hooks.withLock { $0 }.willOpen()
            settled.withLock { $0 = .open }
        }
        let waiters: [@Sendable () -> Void]? = state.withLock { state in
            if state.wishes.isClosed { return nil }
            state.mustSettle = false
            waits.reset()
            closed.store(false, ordering: .releasing)
            return Self.takeWaiters(&state)
        }
        settling.unlock()
        // Closed again meanwhile, by somebody who may not have waited for this.
        if let waiters { waiters.forEach { $0() } } else { settleLater() }
    }

    /// What is inside of a closed gate; nil when the gate is open.
    private func inside() -> [Visit]? {
        state.withLock { $0.wishes.isClosed ? $0.visits.filter { !$0.hasCommitted } : nil }
    }

    // MARK: Closing

    /// Waits until all have left.
    ///
    /// - returns: whether they have; true also when the gate is open.
    func drain(until deadline: Nanoseconds) -> Bool {
        while true {
            let semaphore = DispatchSemaphore(value: 0)
            let id = onChange { semaphore.signal() }
            defer { cancel(id) }
            guard let visits = inside(), !visits.isEmpty else { return true }
            let now = MonotonicClock.now
            guard now < deadline else { return false }
            _ = semaphore.wait(timeout: .now() + .nanoseconds(Int(min(deadline - now, 1 << 60))))
        }
    }

    /// What runs inside ends with its next statement, without a commit.
    func doom() {
        let isNeeded = state.withLock { state in
            guard state.wishes.isClosed else { return false }
            for index in state.visits.indices
            where state.visits[index].isRunning && !state.visits[index].hasCommitted {
                state.visits[index].isDoomed = true
            }
            doomed.store(state.visits.contains(where: \.mustNotCommit), ordering: .releasing)
            return state.visits.contains(where: \.isDoomed)
        }
        guard isNeeded else { return }
        hooks.withLock { $0 }.willDoom()
        interrupt()
    }

    func interrupt() {
        let hooks = hooks.withLock { $0 }
        interrupting.withLock {
            let doomed: [Visit] = state.withLock { state in
                // A connection must not be interrupted while it closes.
                state.visits.contains { $0.kind == .closing } ? [] : state.visits.filter(\.isDoomed)
            }
            if doomed.contains(where: \.mustNotCommit) { hooks.interrupt() }
            if doomed.contains(where: { $0.kind == .checkpoint }) { hooks.interruptCheckpoint() }
        }
    }

    /// After `drain`: what has come of closing the gate. Lets go of what no visit holds.
    func settle(until deadline: Nanoseconds, since began: Nanoseconds) -> Suspension {
        var held: Suspension.Access?
        if settling.lock(until: max(deadline, MonotonicClock.now).addingSaturating(1_000_000)) {
            defer { settling.unlock() }
            held = lastInside()
            if held == nil, isToBeClosed, settled.withLock({ $0 }) != .closed {
                held = hooks.withLock { $0 }.didClose(deadline).first
                settled.withLock { $0 = held == nil ? .closed : .partly }
            }
        } else {
            // Somebody is at it, and sees then that the gate is to be closed.
            held = Suspension.Access(kind: .opening, callSite: nil, duration: 0)
        }
        let outcome: Suspension.Outcome = state.withLock { state in
            if state.isAbandoned { return .released }
            guard state.wishes.isClosed else {
                let names = state.wishes.protectors
                return names.isEmpty ? .resumed : .protected(names)
            }
            if let held { return process.assertions.isProtecting ? .protected(["\(held)"]) : .held(held) }
            switch state.interrupted {
            case (let visit, .rolledBack)?: return .rolledBack(visit.access)
            case (let visit, .partly)?: return .interrupted(visit.access)
            case nil: return .released
            }
        }
        return Suspension(
            path: path,
            outcome: outcome,
            duration: Double(MonotonicClock.now.subtractingSaturating(began)) / 1e9
        )
    }

    /// Who is still inside of the closed gate. When the last has left, it is settled.
    private func lastInside() -> Suspension.Access? {
        state.withLock { state in
            guard state.wishes.isClosed, !state.visits.isEmpty else { return nil }
            state.mustSettle = true
            let holding = state.visits.filter { !$0.hasCommitted }
            return (holding.first(where: \.isRunning) ?? holding.first)?.access
        }
    }

    private func settleLater(endingUse: Bool = false) {
        Thread.detachNewThread { [self] in
            let now = MonotonicClock.now
            _ = settle(until: now &+ 100_000_000, since: now)
            if endingUse { process.assertions.endUse() }
            process.assertions.endIfIdle()
        }
    }

    // MARK: The write that runs

    /// It has committed: what its observers do is not interrupted.
    func runningDidCommit() {
        changeRunning { $0.hasCommitted = true }
        guard isClosed else { return }
        let waiters = state.withLock { state in
            state.visits.allSatisfy(\.hasCommitted) ? Self.takeWaiters(&state) : []
        }
        waiters.forEach { $0() }
    }

    /// The write is about to take a lock after its commit, for a step that can be left out (rule K6). If the gate is open, the write counts
    /// as inside again, so whoever closes the gate later waits for the step.
    ///
    /// - returns: false when the gate is closed: the step must not begin.
    func runningMayBeginStep() -> Bool {
        state.withLock { state in
            guard !state.wishes.isClosed else { return false }
            Self.changeRunning(&state) { $0.hasCommitted = false }
            return true
        }
    }

    /// It writes again: its observers do, or its completion.
    ///
    /// - returns: whether the gate is closed.
    @discardableResult
    func runningGoesOn() -> Bool {
        changeRunning { $0.hasCommitted = false }
        return isClosed
    }

    private func changeRunning(_ body: (inout Visit) -> Void) {
        state.withLock { state in Self.changeRunning(&state, body) }
    }

    private static func changeRunning(_ state: inout State, _ body: (inout Visit) -> Void) {
        guard let index = state.visits.lastIndex(where: { $0.kind == .write && $0.isRunning }) else { return }
        body(&state.visits[index])
    }
}

extension SuspensionGate.Visit {
    var access: Suspension.Access {
        Suspension.Access(
            kind: kind,
            callSite: site.map { "\($0.file):\($0.line)" },
            duration: Double(MonotonicClock.now.subtractingSaturating(since)) / 1e9
        )
    }
}

/// A continuation that is resumed once, also when that comes first.
private final class WakeUp: Sendable {
    private enum State {
        case idle, signalled
        case waiting(CheckedContinuation<Void, Never>)
    }
    private let state = Mutex(State.idle)

    func signal() {
        let continuation: CheckedContinuation<Void, Never>? = state.withLock { state in
            defer { state = .signalled }
            if case .waiting(let continuation) = state { return continuation }
            return nil
        }
        continuation?.resume()
    }

    func wait() async {
        await withCheckedContinuation { continuation in
            let isSignalled = state.withLock { state in
                if case .signalled = state { return true }
                state = .waiting(continuation)
                return false
            }
            if isSignalled { continuation.resume() }
        }
    }
}
