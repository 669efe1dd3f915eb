import Dispatch
import Foundation
import GRDB
import RoundtableKernel
import Synchronization

/// The gate of one database, which closes before the system freezes the process (rules F1–F6).
///
/// Each operation that may take a lock for which the system kills the process enters the gate and leaves it: writes, turns of raw
/// handles, opening, closing, checkpoints. No operation enters while the gate is closed.
package final class SuspensionGate: Sendable {
    /// An operation inside the gate.
    struct Visit {
        let id: UInt64
        let kind: Suspension.Access.Kind
        let site: CallSite?
        var since: Nanoseconds
        /// Whether the operation runs. Otherwise it waits for the connection, and holds no lock.
        var isRunning: Bool
        /// Whether the operation uses the system's assertion. A checkpoint does not: it is interrupted, because nothing is lost
        /// with it.
        var isInUse: Bool { isRunning && kind != .checkpoint }
        /// Whether the operation must be aborted and rolled back.
        var isAborted = false
        var mustNotCommit: Bool { isAborted && kind != .checkpoint }
        /// Whether the operation has committed, and its observers are being notified. It holds no lock that matters, and takes
        /// none before it counts as inside again (rule F2).
        var hasCommitted = false
    }

    /// How a visit ended that the gate has interrupted.
    enum Interruption { case rolledBack, partly }

    private struct State {
        var requests: GateState
        var visits: [Visit] = []
        var nextID: UInt64 = 0
        /// The last visit that the gate has interrupted.
        var interrupted: (visit: Visit, how: Interruption)?
        /// Whether the database is closed. There is nothing to guard then, and no waiter.
        var isAbandoned = false
        /// Whether the gate must be settled when the last visit has left, because no thread waits for that any more.
        var mustSettle = false
        /// Called at the next change of the gate, or when the last visit has left.
        var waiters: [UInt64: @Sendable () -> Void] = [:]
    }

    let path: String
    private let releasesEverything: Atomic<Bool>
    let process: ProcessSuspension
    /// Ends waits for the turn while the gate is closed.
    let waits = WaitCancellation()
    private let state: Mutex<State>
    private let followers = Mutex(GateFollowers())
    /// Whether the gate is closed. Each access checks this.
    private let closed = Atomic(false)
    /// Whether a running visit must not commit. Each writing statement checks this.
    private let aborted = Atomic(false)
    /// Whether a wait for a lock was given up because the gate was closed.
    let hasGivenUp = Atomic(false)
    /// The last notification of the followers: `gateDidClose` or `gateWillOpen`. Guarded by `settling`, which is held while
    /// either runs.
    private enum Settled { case open, partly, closed }
    private let settled = Mutex(Settled.open)
    private let settling = NSLock()
    /// Held while running visits are interrupted. No aborted visit ends meanwhile, so nothing else is interrupted. It is separate
    /// from `state`, because followers need locks of their own. It is recursive, because a raw handle that goes away within
    /// `gateInterruptsWrites` leaves the gate.
    private let interrupting = NSRecursiveLock()

    init(path: String, policy: SuspensionPolicy, process: ProcessSuspension) {
        self.path = path
        releasesEverything = Atomic(policy == .everything)
        self.process = process
        state = Mutex(State(requests: GateState()))
        process.add(self)
    }

    deinit {
        process.remove(ObjectIdentifier(self))
        // These visits were left open, and no other code can end them.
        for visit in state.withLock({ $0.visits }) where visit.isInUse { process.assertions.endUse() }
    }

    var policy: SuspensionPolicy { releasesEverything.load(ordering: .acquiring) ? .everything : .writeLocks }

    /// Releases everything from now on, because the readers of this database also hold locks that matter.
    func releaseEverything() { releasesEverything.store(true, ordering: .releasing) }

    /// Adds a follower, which the gate does not keep alive.
    func add(_ follower: any GateFollower) { followers.withLock { $0.add(follower) } }

    var presentFollowers: [any GateFollower] { followers.withLock { $0.all } }

    /// Whether the gate is closed.
    package var isClosed: Bool { closed.load(ordering: .acquiring) }

    /// Whether a running visit must end without a commit.
    package var isAborted: Bool { aborted.load(ordering: .acquiring) }

    // MARK: Entering

    /// Enters the gate.
    ///
    /// - parameter isRunning: whether the operation runs at once. Otherwise the caller calls `start` later.
    /// - returns: the visit, which `leave` ends; nil when the gate is closed.
    func enter(_ kind: Suspension.Access.Kind, at site: CallSite?, isRunning: Bool) -> UInt64? {
        if isClosed { return nil }
        let id: UInt64? = state.withLock { state in
            guard !state.requests.isClosed else { return nil }
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
        // Later interruptions find the visit. An interruption that has already begun ends before this continues.
        if kind == .closing { interrupting.withLock {} }
        if isRunning, kind != .checkpoint, start(id) == nil {
            leave(id)
            return nil
        }
        return id
    }

    /// Marks a visit as running. This requests an assertion from the system, which may take a while.
    ///
    /// - returns: the time of the start; nil when the gate was closed meanwhile, and the caller must leave.
    func start(_ id: UInt64) -> Nanoseconds? {
        process.assertions.beginUse()
        let started: Nanoseconds? = state.withLock { state in
            guard !state.requests.isClosed, let index = state.visits.lastIndex(where: { $0.id == id }) else {
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

    /// Leaves the gate. Further calls do nothing.
    ///
    /// - parameter interruption: how the gate has ended the visit.
    func leave(_ id: UInt64, _ interruption: Interruption? = nil) {
        let left = remove(id, interruption) ?? interrupting.withLock { remove(id, interruption, evenIfAborted: true) }
        guard let left else { return }
        left.waiters.forEach { $0() }
        if left.mustSettle { settleLater(endingUse: left.wasInUse) }
    }

    /// What remains to be done when a visit has left.
    private struct Left {
        var waiters: [@Sendable () -> Void] = []
        var mustSettle = false
        var wasInUse = false
    }

    /// - returns: nil when the visit is aborted, and must not leave yet.
    private func remove(_ id: UInt64, _ interruption: Interruption?, evenIfAborted: Bool = false) -> Left? {
        state.withLock { state in
            guard let index = state.visits.firstIndex(where: { $0.id == id }) else { return Left() }
            if state.visits[index].isAborted, !evenIfAborted { return nil }
            let visit = state.visits.remove(at: index)
            if let interruption { state.interrupted = (visit, interruption) }
            if visit.isAborted { aborted.store(state.visits.contains(where: \.mustNotCommit), ordering: .releasing) }
            let isLast = state.visits.isEmpty
            let mustSettle = isLast && state.mustSettle
            // The suspending thread ends the assertion when no visit uses it. So the use must end before that thread can see that
            // all visits have left. If the gate must still be settled, the assertion is needed until then.
            if visit.isInUse, !mustSettle { process.assertions.endUse() }
            guard isLast else { return Left() }
            state.mustSettle = false
            return Left(waiters: Self.takeWaiters(&state), mustSettle: mustSettle, wasInUse: visit.isInUse)
        }
    }

    /// The running write.
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

    /// Calls `body` once, soon after `isClosed` changes or the last visit ends.
    package func onChange(_ body: @escaping @Sendable () -> Void) -> UInt64 {
        state.withLock { state in
            state.nextID += 1
            state.waiters[state.nextID] = body
            return state.nextID
        }
    }

    /// - returns: false when the waiter was called already.
    @discardableResult
    package func cancel(_ waiter: UInt64) -> Bool { state.withLock { $0.waiters.removeValue(forKey: waiter) != nil } }

    private static func takeWaiters(_ state: inout State) -> [@Sendable () -> Void] {
        if state.waiters.isEmpty { return [] }
        defer { state.waiters = [:] }
        return Array(state.waiters.values)
    }

    // MARK: Opening and closing

    /// Changes the requests. If this opens the gate, everything that belongs to opening has happened on return. If it closes the
    /// gate, the visits are still inside.
    func change(_ body: (inout GateState) -> Void) {
        if request(body) { open() }
    }

    /// The first step of `change`: closes the gate at once, if the requests say so now.
    ///
    /// - returns: whether `open` must be called.
    func request(_ body: (inout GateState) -> Void) -> Bool {
        let (mustOpen, waiters) = state.withLock { state in
            let wasClosed = state.requests.isClosed
            if state.isAbandoned { return (false, [@Sendable () -> Void]()) }
            body(&state.requests)
            let isClosed = state.requests.isClosed
            guard !wasClosed, isClosed else { return (wasClosed && !isClosed, [@Sendable () -> Void]()) }
            state.interrupted = nil
            closed.store(true, ordering: .releasing)
            waits.cancel()
            return (false, Self.takeWaiters(&state))
        }
        waiters.forEach { $0() }
        return mustOpen
    }

    /// Ends the gate after the database was closed. Waiters find that out by themselves.
    func abandon() {
        process.remove(ObjectIdentifier(self))
        let waiters = state.withLock { state in
            state.isAbandoned = true
            state.requests = GateState()
            waits.reset()
            closed.store(false, ordering: .releasing)
            return Self.takeWaiters(&state)
        }
        waiters.forEach { $0() }
    }

    /// Whether the requests say that the gate must be closed. `isClosed` may still differ.
    var isToBeClosed: Bool { state.withLock { $0.requests.isClosed } }

    /// Opens the gate, unless it must be closed again.
    func open() {
        settling.lock()
        if isToBeClosed { return settling.unlock() }
        if settled.withLock({ $0 }) != .open {
            for follower in presentFollowers { follower.gateWillOpen() }
            settled.withLock { $0 = .open }
        }
        let waiters: [@Sendable () -> Void]? = state.withLock { state in
            if state.requests.isClosed { return nil }
            state.mustSettle = false
            waits.reset()
            closed.store(false, ordering: .releasing)
            return Self.takeWaiters(&state)
        }
        settling.unlock()
        // The gate was closed again meanwhile, by a thread that may not have waited for this.
        if let waiters { waiters.forEach { $0() } } else { settleLater() }
    }

    /// The uncommitted visits inside a closed gate; nil when the gate is open.
    private func inside() -> [Visit]? {
        state.withLock { $0.requests.isClosed ? $0.visits.filter { !$0.hasCommitted } : nil }
    }

    // MARK: Closing

    /// Waits until all visits have left or committed.
    ///
    /// - returns: whether they have; also true when the gate is open.
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

    /// Aborts the running visits: they end with their next statement, without a commit.
    func abort() {
        let isNeeded = state.withLock { state in
            guard state.requests.isClosed else { return false }
            for index in state.visits.indices
            where state.visits[index].isRunning && !state.visits[index].hasCommitted {
                state.visits[index].isAborted = true
            }
            aborted.store(state.visits.contains(where: \.mustNotCommit), ordering: .releasing)
            return state.visits.contains(where: \.isAborted)
        }
        guard isNeeded else { return }
        for follower in presentFollowers { follower.gateWillAbort() }
        interrupt()
    }

    func interrupt() {
        let followers = presentFollowers
        interrupting.withLock {
            let aborted: [Visit] = state.withLock { state in
                // A connection must not be interrupted while it closes.
                state.visits.contains { $0.kind == .closing } ? [] : state.visits.filter(\.isAborted)
            }
            if aborted.contains(where: \.mustNotCommit) {
                for follower in followers { follower.gateInterruptsWrites() }
            }
            if aborted.contains(where: { $0.kind == .checkpoint }) {
                for follower in followers { follower.gateInterruptsCheckpoint() }
            }
        }
    }

    /// Completes closing after `drain`, and returns the result. The followers release what no visit holds.
    func settle(until deadline: Nanoseconds, since began: Nanoseconds) -> Suspension {
        var held: Suspension.Access?
        if settling.lock(until: max(deadline, MonotonicClock.now).addingSaturating(1_000_000)) {
            defer { settling.unlock() }
            held = lastInside()
            if held == nil, isToBeClosed, settled.withLock({ $0 }) != .closed {
                held = presentFollowers.flatMap { $0.gateDidClose(until: deadline) }.first
                settled.withLock { $0 = held == nil ? .closed : .partly }
            }
        } else {
            // Another thread opens or settles the gate. It will see that the gate must be closed.
            held = Suspension.Access(kind: .opening, callSite: nil, duration: 0)
        }
        let outcome: Suspension.Outcome = state.withLock { state in
            if state.isAbandoned { return .released }
            guard state.requests.isClosed else {
                let names = state.requests.protectors
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

    /// The access that is still inside the closed gate. When the last visit has left, the gate is settled.
    private func lastInside() -> Suspension.Access? {
        state.withLock { state in
            guard state.requests.isClosed, !state.visits.isEmpty else { return nil }
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

    // MARK: The running write

    /// Notes that the running write has committed. Its observers are not interrupted.
    func runningDidCommit() {
        changeRunning { $0.hasCommitted = true }
        guard isClosed else { return }
        let waiters = state.withLock { state in
            state.visits.allSatisfy(\.hasCommitted) ? Self.takeWaiters(&state) : []
        }
        waiters.forEach { $0() }
    }

    /// Called when the write is about to take a lock after its commit, for a step that can be left out (rule K6). If the gate is
    /// open, the write counts as inside again, so that a later closing waits for the step.
    ///
    /// - returns: false when the gate is closed: the step must not begin.
    func runningMayBeginStep() -> Bool {
        state.withLock { state in
            guard !state.requests.isClosed else { return false }
            Self.changeRunning(&state) { $0.hasCommitted = false }
            return true
        }
    }

    /// Notes that the write writes again after its commit, in its observers or its completion.
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

/// A continuation that is resumed once, even if the signal comes before the wait.
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
