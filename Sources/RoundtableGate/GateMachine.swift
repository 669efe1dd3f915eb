import RoundtableKernel

// Rule F2: An access that takes a lock which the system kills for (writes, opening, migrating, closing, checkpoints) is *inside*: it enters
// before the first such lock, and leaves after the last. One that finds the gate closed has done nothing: it waits outside, without
// connection, turn or place in the queue, or fails; one that still waited for its turn goes back outside. A write that has committed counts
// as outside while observers are notified, and again as inside before it takes a further lock. Value observations that may write enter, and
// wait while the gate is closed.

// Rule F4: No step begins behind a gate that is closing or closed: no checkpoint, in the background (K4, K5) or by a writer in
// need (K6), and no statement of an observer that writes. What has begun before is inside (F2), and is waited for. A turn is given up when
// the write inside has committed or ended, and is not left lingering.

// Rule F6: The participant's slot has the state *suspended* from the time when no access is inside of the closed gate, until it opens.
// Others may show it. Nothing is decided by it.

/// The state of a suspension gate, as a pure value (rules F1–F6).
///
/// It has no locks, no clock and no threads, and knows no connections. Each mutating method is an event; what it returns is what
/// ``SuspensionGate``, which holds the machine under a lock, has to do then. `GateModelTests` feeds it the events of several
/// threads in every interleaving.
///
/// | requests | `isClosed` | `settled` | the gate is |
/// | --- | --- | --- | --- |
/// | open | no | open | open: visits enter and start |
/// | closed | yes | open | closing: the visits inside end, or are aborted |
/// | closed | yes | partly | closed, and a follower still holds a lock |
/// | closed | yes | closed | closed, and all followers have released what no visit holds |
/// | open | yes | any | opening: visits enter again when the followers have been notified |
///
/// The requests may change at any time. So a gate that is closing may open, and a gate that is opening may be closed again before a
/// visit enters.
package struct GateMachine: Hashable, Sendable {
    /// An operation inside the gate.
    struct Visit: Hashable, Sendable {
        /// A call site, or none. Nothing is decided by it, so all are equal.
        struct Site: Hashable {
            var value: CallSite?
            static func == (one: Self, other: Self) -> Bool { true }
            func hash(into hasher: inout Hasher) {}
        }

        let id: UInt64
        let kind: SuspensionReport.Access.Kind
        fileprivate(set) var site: Site
        fileprivate(set) var since: Nanoseconds
        /// Whether the operation runs. Otherwise it waits for the connection, and holds no lock.
        fileprivate(set) var isRunning: Bool
        /// Whether the operation must be aborted and rolled back.
        fileprivate(set) var isAborted = false
        /// Whether the operation has committed, and its observers are being notified. It holds no lock that matters, and takes
        /// none before it counts as inside again (rule F2).
        fileprivate(set) var hasCommitted = false

        /// Whether the operation uses the system's assertion. A checkpoint does not where a notice precedes the freeze: it is
        /// interrupted then, because nothing is lost with it.
        fileprivate(set) var isInUse = false
        var mustNotCommit: Bool { isAborted && kind != .checkpoint }
    }

    /// How a visit ended that the gate has interrupted.
    package enum Interruption: Hashable { case rolledBack, partly }

    /// A visit that the gate has interrupted.
    struct Interrupted: Hashable {
        let visit: Visit
        let how: Interruption
    }

    /// The last notification of the followers: `gateDidClose`, which they have done partly or completely, or `gateWillOpen`.
    enum Settled: Hashable { case open, partly, closed }

    private(set) var requests = SuspensionRequests()
    private(set) var visits: [Visit] = []
    private var lastID: UInt64 = 0
    /// Whether the gate is closed for visits that want to enter.
    private(set) var isClosed = false
    /// Whether a visit inside must end without a commit.
    private(set) var mustNotCommit = false
    /// The last visit that the gate has interrupted since it was closed.
    private(set) var interrupted: Interrupted?
    private(set) var settled = Settled.open
    /// Whether the gate must be settled when the last visit has left, because no thread waits for that any more.
    private(set) var mustSettle = false
    /// Whether the database is closed. There is nothing to guard then, and no waiter.
    private(set) var isAbandoned = false
}

// MARK: - Requests

extension GateMachine {
    enum RequestEffect: Equatable {
        case none
        /// The gate is closed now. Wake the waiters.
        case closed
        /// The gate must be opened: see `beginOpening()`.
        case mustOpen
    }

    mutating func changeRequests(_ change: (inout SuspensionRequests) -> Void) -> RequestEffect {
        if isAbandoned { return .none }
        let wasClosed = requests.isClosed
        change(&requests)
        switch (wasClosed, requests.isClosed) {
        case (false, true):
            isClosed = true
            interrupted = nil
            return .closed
        case (true, false): return .mustOpen
        case (false, false), (true, true): return .none
        }
    }

    /// Notes that the database was closed. The gate is open from now on. Wake the waiters.
    mutating func abandon() {
        isAbandoned = true
        requests = SuspensionRequests()
        isClosed = false
    }
}

// MARK: - Visits

extension GateMachine {
    /// - parameter isRunning: whether a checkpoint runs immediately. Other visits, and checkpoints of a process without notices, need an
    ///   assertion of the system first (rules F5, F5b), and `start` later.
    /// - returns: nil when the gate is closed, also while it is opening.
    mutating func enter(
        _ kind: SuspensionReport.Access.Kind,
        site: CallSite?,
        isRunning: Bool,
        at now: Nanoseconds
    ) -> UInt64? {
        if isClosed { return nil }
        lastID += 1
        let isRunning = isRunning && kind == .checkpoint
        visits.append(Visit(id: lastID, kind: kind, site: .init(value: site), since: now, isRunning: isRunning))
        return lastID
    }

    /// Marks a visit as running. Its use of the assertion must have begun.
    ///
    /// - returns: false when the gate was closed meanwhile. End the use; the visit must leave.
    mutating func start(_ id: UInt64, at now: Nanoseconds) -> Bool {
        guard !requests.isClosed, let index = visits.lastIndex(where: { $0.id == id }) else { return false }
        visits[index].isRunning = true
        visits[index].isInUse = true
        visits[index].since = now
        return true
    }

    /// Sets the line of code that the visit runs, which can be several, one after the other (rule M6).
    mutating func show(_ site: CallSite?, of id: UInt64) {
        if let index = visits.lastIndex(where: { $0.id == id }) { visits[index].site.value = site }
    }

    /// What remains to be done when a visit has left.
    struct Departure: Equatable {
        /// End the visit's use of the assertion before another event is processed. The suspending thread ends the assertion when
        /// no visit uses it, so the use must end before that thread can see that all visits have left.
        var endsUse = false
        var wakesWaiters = false
        /// Settle the gate.
        var mustSettle = false
        /// End the visit's use of the assertion after settling, which needs the assertion.
        var endsUseAfterSettling = false
    }

    /// - parameter interruption: how the gate has ended the visit.
    /// - parameter evenIfAborted: whether no thread interrupts the aborted visits now.
    /// - returns: nil when the visit is aborted, and must not leave while a thread may be interrupting it.
    mutating func leave(_ id: UInt64, _ interruption: Interruption?, evenIfAborted: Bool = false) -> Departure? {
        guard let index = visits.firstIndex(where: { $0.id == id }) else { return Departure() }
        if visits[index].isAborted, !evenIfAborted { return nil }
        let visit = visits.remove(at: index)
        if let interruption { interrupted = Interrupted(visit: visit, how: interruption) }
        if visit.isAborted { mustNotCommit = visits.contains(where: \.mustNotCommit) }
        guard visits.isEmpty else { return Departure(endsUse: visit.isInUse, wakesWaiters: isClosed && holding == nil) }
        defer { mustSettle = false }
        return Departure(
            endsUse: visit.isInUse && !mustSettle,
            wakesWaiters: true,
            mustSettle: mustSettle,
            endsUseAfterSettling: visit.isInUse && mustSettle
        )
    }

    /// The access of a visit that is inside the gate.
    func access(_ id: UInt64, at now: Nanoseconds) -> SuspensionReport.Access? {
        visits.first { $0.id == id }?.access(at: now)
    }

    /// The number of visits inside the gate that currently use the system's assertion.
    var uses: Int { visits.count(where: \.isInUse) }
}

// MARK: - The running write

extension GateMachine {
    var running: Visit? { visits.first { $0.kind == .write && $0.isRunning } }

    /// Notes that the running write has committed. Its observers are not interrupted.
    ///
    /// - returns: whether to wake the waiters.
    mutating func runningDidCommit() -> Bool {
        changeRunning { $0.hasCommitted = true }
        return isClosed && holding == nil
    }

    /// Notes that the running write is about to take a lock after its commit, for a step that can be left out. If the gate is open, the
    /// write counts as inside again, so that a later closing waits for the step.
    ///
    /// - returns: false when the gate is closed, also while it is opening: the step must not begin.
    mutating func runningMayBeginStep() -> Bool {
        if isClosed { return false }
        changeRunning { $0.hasCommitted = false }
        return true
    }

    /// Notes that the running write writes again after its commit.
    ///
    /// - returns: whether the gate is closed, and the write must be aborted before it takes a lock.
    mutating func runningContinues() -> Bool {
        changeRunning { $0.hasCommitted = false }
        return isClosed
    }

    private mutating func changeRunning(_ change: (inout Visit) -> Void) {
        guard let index = visits.lastIndex(where: { $0.kind == .write && $0.isRunning }) else { return }
        change(&visits[index])
    }
}

// MARK: - Closing

extension GateMachine {
    /// Whether the suspending thread need not wait: all visits have left or committed, or the gate is not to be closed any more.
    var isDrained: Bool { !requests.isClosed || holding == nil }

    /// The visit that holds a lock, or is going to acquire it.
    private var holding: Visit? {
        visits.first { $0.isRunning && !$0.hasCommitted } ?? visits.first { !$0.hasCommitted }
    }

    /// Aborts the running visits: they end with their next statement, without a commit.
    ///
    /// - returns: whether a visit is aborted, so that the followers must interrupt it.
    mutating func abort() -> Bool {
        guard requests.isClosed else { return false }
        for index in visits.indices where visits[index].isRunning && !visits[index].hasCommitted {
            visits[index].isAborted = true
        }
        mustNotCommit = visits.contains(where: \.mustNotCommit)
        return visits.contains(where: \.isAborted)
    }

    /// What the followers must interrupt. Nothing while a connection closes, which must not be interrupted.
    var interruptions: (writes: Bool, checkpoint: Bool) {
        if visits.contains(where: { $0.kind == .closing }) { return (false, false) }
        return (mustNotCommit, visits.contains { $0.isAborted && $0.kind == .checkpoint })
    }

    enum Settling {
        /// The gate is not to be closed, or the followers have released everything before.
        case none
        /// Call `gateDidClose` of the followers, then `didSettle`.
        case notifyFollowers
        /// This visit is still inside, or another one. When the last visit has left, the gate must be settled.
        case held(Visit)
    }

    /// Begins to settle the gate. No other thread may settle or open it before `didSettle`.
    mutating func beginSettling() -> Settling {
        guard requests.isClosed else { return .none }
        if !visits.isEmpty { mustSettle = true }
        if let holding { return .held(holding) }
        return settled == .closed ? .none : .notifyFollowers
    }

    /// - parameter isHeld: whether a follower still holds a lock.
    mutating func didSettle(isHeld: Bool) { settled = isHeld ? .partly : .closed }

    /// The result of a suspension. It must be computed together with the last event of settling. Otherwise the gate may have been
    /// opened and closed again meanwhile, and the result would not hold for the visits that have entered.
    ///
    /// - parameter held: the access that still holds a lock.
    /// - parameter isProtecting: whether the system gives that access more time.
    func outcome(holding held: SuspensionReport.Access?, isProtecting: Bool, at now: Nanoseconds)
        -> SuspensionReport.Outcome
    {
        if isAbandoned { return .released }
        guard requests.isClosed else {
            let names = requests.protectors
            return names.isEmpty ? .resumed : .protected(names)
        }
        if let held { return isProtecting ? .protected(["\(held)"]) : .held(held) }
        guard let interrupted else { return .released }
        switch interrupted.how {
        case .rolledBack: return .rolledBack(interrupted.visit.access(at: now))
        case .partly: return .interrupted(interrupted.visit.access(at: now))
        }
    }
}

// MARK: - Opening

extension GateMachine {
    enum Opening: Equatable {
        /// The gate must be closed again.
        case none
        /// Call `gateWillOpen` of the followers, then `didOpen`.
        case notifyFollowers
        /// The followers were not notified of the closing. Call `didOpen`.
        case atOnce
    }

    /// Begins to open the gate. No other thread may settle or open it before `didOpen`.
    func beginOpening() -> Opening {
        if requests.isClosed { return .none }
        return settled == .open ? .atOnce : .notifyFollowers
    }

    /// - returns: true: the gate is open. Wake the waiters. False: the gate was closed again meanwhile. Settle it, because the
    ///   thread that closed it may not have waited for this.
    mutating func didOpen() -> Bool {
        settled = .open
        if requests.isClosed { return false }
        mustSettle = false
        isClosed = false
        return true
    }
}

// MARK: - Values

extension GateMachine.Visit {
    func access(at now: Nanoseconds) -> SuspensionReport.Access {
        SuspensionReport.Access(
            kind: kind,
            callSite: site.value.map { "\($0.file):\($0.line)" },
            duration: .nanoseconds(Int64(clamping: now.subtractingSaturating(since)))
        )
    }
}
