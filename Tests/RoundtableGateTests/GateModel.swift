import RoundtableKernel
import RoundtableTestBasics

@testable import RoundtableGate

/// A world of threads that use one `GateMachine` as `SuspensionGate` does, with its locks, its waiters and the uses of the assertion.
/// Each step is one event of the machine, or one acquisition of a lock, so walking all steps walks all interleavings.
///
/// A lock is acquired together with the event that follows, and released together with the event before. So a thread stops waiting for
/// `settling` only while followers are notified, which is when it may be locked for longer than the millisecond that a thread waits.
struct GateModel: Hashable {
    enum Role: Hashable {
        case visitor(SuspensionReport.Access.Kind)
        case requester([Request])
        /// What `settleLater` begins.
        case settler(endsUse: Bool)
    }

    enum Activity: Hashable {
        // A visitor.
        case outside
        case waitingOutside(isAsleep: Bool)
        case entering
        case waitingForInterruption
        case waitingForConnection
        case asking
        case starting
        case refused
        case running
        case committing
        case committed
        case observing
        case continuing
        case makingStep
        case abandoning
        case leaving(GateMachine.Interruption?)
        case leavingAborted(GateMachine.Interruption?)
        // A thread that closes or opens the gate.
        case requesting
        case draining(isFinal: Bool)
        case checkingDrained(isFinal: Bool)
        case asleep(isFinal: Bool)
        case aborting
        case beforeInterrupting
        case interrupting(writes: Bool, checkpoint: Bool)
        case settling
        case notifyingOfClosing
        case opening
        case notifyingOfOpening
        case endingUse
        case done
    }

    struct Thread: Hashable {
        var role: Role
        var activity: Activity
        var visit: UInt64 = 0
        /// Whether the visit is running, as far as the thread knows.
        var hasStarted = false
        /// Whether the thread has registered a waiter that was not called yet.
        var isWaiter = false
        /// Whether the thread has the writer connection.
        var hasConnection = false
        /// Whether the write has continued after its commit while the gate was opening. If the gate is closed again before it is open, what
        /// was settled stays so; the thread that closes the gate waits for the write.
        var isEarly = false
        /// A protected access: what the thread accesses when its requests are made, and what it requests then.
        var accesses: SuspensionReport.Access.Kind?
        var requestsThen: [Request] = []
        /// Whether the thread was begun by a visit that was turned back.
        var isOfRefusal = false
        /// How often an observer may still write after a commit.
        var continuations = 1

        var kind: SuspensionReport.Access.Kind? { if case .visitor(let kind) = role { kind } else { nil } }

        /// Whether the thread holds a lock for which the system kills the process.
        var holdsLock: Bool {
            switch activity {
            case .running, .committing, .makingStep, .abandoning: true
            default: false
            }
        }
    }

    var machine = GateMachine()
    var threads: [Thread]
    /// The counter of `WriteAssertions`.
    var uses = 0
    /// What the system knows; nil when it is left out, and may or may not give time.
    var system: System?
    var isSettlingLocked = false
    var isInterruptingLocked = false
    /// The last visit that the gate has ended since it was closed.
    var ended: Ended?
    let broken: Break?
    /// What was wrong with the last step.
    var violation: String?

    /// A visit that the gate has ended, as the answer of a suspension must name it.
    struct Ended: Hashable {
        let thread: Int
        let kind: SuspensionReport.Access.Kind
        let how: GateMachine.Interruption
    }

    /// The time of each step. These times show which moment the machine has kept, and nothing depends on them.
    enum Moment {
        static let entering: Nanoseconds = 1_000_000_000
        static let starting: Nanoseconds = 2_000_000_000
        static let answering: Nanoseconds = 4_000_000_000
    }

    /// What is broken on purpose around the machine, to show that the walk detects it.
    enum Break: CaseIterable {
        /// A call that suspends does not end the assertion that no write uses.
        case suspensionKeepsAssertion
        /// The last visit to leave a closed gate does not end it.
        case lastVisitKeepsAssertion
        /// A suspension keeps the protections that nothing backs.
        case suspensionKeepsUnbackedProtections
        /// A process without notices continues when it has been refused an assertion.
        case refusalIsIgnored
        /// A checkpoint of a process without notices needs no assertion.
        case checkpointNeedsNothing
        /// The end of a protected access ends its assertion, although a write runs that has none.
        case protectionLeavesNothing
    }

    /// - parameter protected: protected accesses: what each requests before and after the access.
    init(
        visitors: [SuspensionReport.Access.Kind],
        protected: [(before: [Request], kind: SuspensionReport.Access.Kind, after: [Request])] = [],
        requesters: [[Request]],
        system: System? = nil,
        broken: Break? = nil
    ) {
        threads =
            visitors.map { Thread(role: .visitor($0), activity: .outside) }
            + protected.map {
                Thread(role: .requester($0.before), activity: .requesting, accesses: $0.kind, requestsThen: $0.after)
            }
            + requesters.map { Thread(role: .requester($0), activity: .requesting) }
        (self.system, self.broken) = (system, broken)
    }
}

// MARK: - Steps

extension GateModel: WalkedModel {
    struct Step: CustomStringConvertible {
        let thread: Int
        let activity: Activity
        var description: String { "\(thread) \(activity)" }
    }

    /// All worlds that are one step away.
    func successors() -> [(step: Step, world: GateModel)] {
        let ofThreads = threads.indices.flatMap { index in
            steps(of: index).map { change in
                var world = self
                change(&world)
                world.removeSettlers()
                return (Step(thread: index, activity: threads[index].activity), world)
            }
        }
        // The timer belongs to no thread of the model.
        return ofThreads + worldsAfterLingering.map { (Step(thread: threads.count, activity: .endingUse), $0) }
    }

    typealias Change = (inout GateModel) -> Void

    private func steps(of index: Int) -> [Change] {
        let me = threads[index]
        switch me.activity {
        case .outside:
            guard machine.isClosed else { return [{ $0.go(index, .entering) }] }
            return [{ $0.finish(index) }, { $0.register(index, .waitingOutside(isAsleep: false)) }]
        case .entering:
            return [{ $0.enter(index) }]
        case .waitingOutside(isAsleep: false):
            return [{ $0.go(index, $0.machine.isClosed ? .waitingOutside(isAsleep: true) : .outside) }]
        case .waitingOutside(isAsleep: true):
            return me.isWaiter ? [] : [{ $0.go(index, .outside) }]
        case .waitingForInterruption:
            return isInterruptingLocked ? [] : [{ $0.go(index, .waitingForConnection) }]
        case .waitingForConnection:
            // A write may lose its patience.
            let giveUp: Change = { $0.go(index, .leaving(nil)) }
            guard me.kind == .write else { return [{ $0.beginUse(index) }] }
            return threads.contains(where: \.hasConnection) ? [giveUp] : [giveUp, { $0.beginUse(index) }]
        case .asking:
            return stepsOfAsking(index)
        case .starting:
            return [{ $0.start(index) }]
        case .refused:
            return [
                { world in
                    world.uses -= 1
                    world.go(index, .leaving(nil))
                }
            ]
        case .running:
            return [{ $0.end(index) }]
        case .committing:
            return [{ $0.go(index, .committed) }]
        case .committed:
            return [
                { world in
                    if world.machine.runningDidCommit() { world.wake() }
                    world.go(index, .observing)
                }
            ]
        case .observing:
            return me.continuations > 0
                ? [{ $0.go(index, .leaving(nil)) }, { $0.beginStep(index) }, { $0.continueWriting(index) }]
                : [{ $0.go(index, .leaving(nil)) }, { $0.beginStep(index) }]
        case .continuing:
            return [
                { world in
                    if !world.machine.mustNotCommit, world.isUnprotected {
                        world.turnBack(index)
                        return world.go(index, .aborting)
                    }
                    // The gate may be opening. Then the write is not aborted.
                    world.threads[index].isEarly = !world.machine.mustNotCommit
                    world.go(index, world.machine.mustNotCommit ? .leaving(.partly) : .running)
                }
            ]
        case .makingStep:
            return [{ $0.go(index, .leaving(nil)) }]
        case .abandoning:
            return [
                { world in
                    world.machine.abandon()
                    world.wake()
                    world.go(index, .leaving(nil))
                }
            ]
        case .leaving(let how):
            return [{ $0.leave(index, how, evenIfAborted: false) }]
        case .leavingAborted(let how):
            return isInterruptingLocked ? [] : [{ $0.leave(index, how, evenIfAborted: true) }]
        default:
            return stepsOfRequester(index)
        }
    }

    private func stepsOfRequester(_ index: Int) -> [Change] {
        let me = threads[index]
        switch me.activity {
        case .requesting:
            return stepsOfRequest(index)
        case .draining(let isFinal):
            return [{ $0.register(index, .checkingDrained(isFinal: isFinal)) }]
        case .checkingDrained(let isFinal):
            if machine.isDrained { return [{ $0.go(index, .settling) }] }
            return [{ $0.go(index, .asleep(isFinal: isFinal)) }]
        case .asleep(let isFinal):
            if !me.isWaiter { return [{ $0.go(index, .draining(isFinal: isFinal)) }] }
            // The deadline comes. While the system gives time, nothing is aborted.
            let settle: Change = { $0.go(index, .settling) }
            if isFinal { return [{ $0.go(index, .beforeInterrupting) }, settle] }
            switch system.map({ _ in isProtecting && !machine.requests.isStopping }) {
            case true?: return [settle]
            case false?: return [{ $0.go(index, .aborting) }]
            case nil: return [{ $0.go(index, .aborting) }, settle]
            }
        case .aborting:
            return [{ $0.abort(index) }]
        case .beforeInterrupting:
            if isInterruptingLocked { return [] }
            return [
                { world in
                    world.isInterruptingLocked = true
                    let (writes, checkpoint) = world.machine.interruptions
                    world.go(index, .interrupting(writes: writes, checkpoint: checkpoint))
                }
            ]
        case .interrupting:
            return [
                { world in
                    world.isInterruptingLocked = false
                    world.go(index, world.afterInterrupting(index))
                }
            ]
        case .settling:
            return [isSettlingLocked ? { $0.answer(index, holding: Self.held(.opening)) } : { $0.settle(index) }]
        case .notifyingOfClosing:
            return [true, false].map { isHeld in
                { world in
                    world.machine.didSettle(isHeld: isHeld)
                    world.isSettlingLocked = false
                    world.answer(index, holding: isHeld ? Self.held(.read) : nil)
                }
            }
        case .opening:
            return isSettlingLocked ? [] : [{ $0.open(index) }]
        case .notifyingOfOpening:
            return [{ $0.didOpen(index) }]
        case .endingUse:
            return [
                { world in
                    world.uses -= 1
                    world.finishSettler(index)
                }
            ]
        default:
            return []
        }
    }

    // MARK: Requesters

    mutating func request(_ index: Int) {
        guard case .requester(let requests) = threads[index].role, let request = requests.first else { return }
        let keepsUnbacked = broken == .suspensionKeepsUnbackedProtections
        let effect = machine.changeRequests { requests in
            request.change(&requests)
            if !keepsUnbacked { request.dropUnbackedProtections(&requests) }
        }
        if request.leavesUnbackedProtection(in: machine.requests) {
            violation = "F1: a protected access that nothing backs outlives a suspension"
        }
        switch effect {
        case .closed:
            ended = nil
            wake()
            nextPart(index)
        case .mustOpen: go(index, .opening)
        case .none: nextPart(index)
        }
    }

    /// Continues after the request has changed, and after the gate was opened, if that was needed.
    private mutating func nextPart(_ index: Int) {
        guard case .requester(let requests) = threads[index].role, let request = requests.first else {
            return finish(index)
        }
        if request.closes { go(index, .draining(isFinal: false)) } else { nextRequest(index) }
    }

    mutating func nextRequest(_ index: Int) {
        guard case .requester(var requests) = threads[index].role else { return finish(index) }
        requests.removeFirst()
        threads[index].role = .requester(requests)
        if !requests.isEmpty { return go(index, .requesting) }
        guard let kind = threads[index].accesses else { return finish(index) }
        threads[index].role = .visitor(kind)
        threads[index].accesses = nil
        go(index, .outside)
    }

    private mutating func abort(_ index: Int) {
        let committed = machine.visits.filter { $0.hasCommitted && !$0.isAborted }
        let isNeeded = machine.abort()
        if !committed.allSatisfy(machine.visits.contains) { violation = "F3: a write that has committed is aborted" }
        go(index, isNeeded ? .beforeInterrupting : afterInterrupting(index))
    }

    private func afterInterrupting(_ index: Int) -> Activity {
        threads[index].kind == nil ? .draining(isFinal: true) : .continuing
    }

    private mutating func settle(_ index: Int) {
        switch machine.beginSettling() {
        case .none: answer(index, holding: nil)
        case .held(let visit): answer(index, holding: visit.access(at: Moment.answering))
        case .notifyFollowers:
            isSettlingLocked = true
            go(index, .notifyingOfClosing)
        }
    }

    /// What holds a lock, and is no visit.
    private static func held(_ kind: SuspensionReport.Access.Kind) -> SuspensionReport.Access {
        SuspensionReport.Access(kind: kind, callSite: nil, duration: .zero)
    }

    private mutating func answer(_ index: Int, holding held: SuspensionReport.Access?) {
        let isProtecting = held != nil && isProtecting
        let outcome = machine.outcome(holding: held, isProtecting: isProtecting, at: Moment.answering)
        let expected = expectedOutcome(holding: held, isProtecting: isProtecting)
        if outcome != expected { violation = "F3: the answer is \(outcome), not \(expected)" }
        let isReleased = SuspensionReport(path: "", outcome: outcome, duration: .zero).isReleased
        if isReleased, !machine.isAbandoned, holdsLock {
            violation = "F3: the answer is \(outcome), and a lock is held"
        }
        if case .settler(let endsUse) = threads[index].role {
            if endsUse { go(index, .endingUse) } else { finishSettler(index) }
        } else {
            nextRequest(index)
        }
    }

    private mutating func open(_ index: Int) {
        switch machine.beginOpening() {
        case .none: nextPart(index)
        case .notifyFollowers, .atOnce:
            isSettlingLocked = true
            go(index, .notifyingOfOpening)
        }
    }

    private mutating func didOpen(_ index: Int) {
        isSettlingLocked = false
        if machine.didOpen() {
            for index in threads.indices { threads[index].isEarly = false }
            wake()
        } else {
            settleLater(endsUse: false)
        }
        nextPart(index)
    }

    // MARK: Helpers

    /// What `settleLater` does at its end.
    private mutating func finishSettler(_ index: Int) {
        if broken != .lastVisitKeepsAssertion { endIfIdle() }
        go(index, .done)
    }

    mutating func go(_ index: Int, _ activity: Activity) {
        threads[index].activity = activity
        switch activity {
        case .asleep, .waitingOutside, .checkingDrained: break
        default: threads[index].isWaiter = false
        }
    }

    mutating func finish(_ index: Int) {
        threads[index].hasConnection = false
        threads[index].visit = 0
        threads[index].hasStarted = false
        if threads[index].requestsThen.isEmpty { return go(index, .done) }
        threads[index].role = .requester(threads[index].requestsThen)
        threads[index].requestsThen = []
        go(index, .requesting)
    }

    private mutating func register(_ index: Int, _ activity: Activity) {
        go(index, activity)
        threads[index].isWaiter = true
    }

    mutating func wake() {
        for index in threads.indices { threads[index].isWaiter = false }
    }

    mutating func settleLater(endsUse: Bool) {
        threads.append(Thread(role: .settler(endsUse: endsUse), activity: .settling))
    }

    private mutating func removeSettlers() {
        threads.removeAll { thread in
            if case .settler = thread.role {
                thread.activity == .done
            } else {
                thread.isOfRefusal && thread.activity == .done
            }
        }
    }
}
