import RoundtableTestBasics

@testable import RoundtableGate

/// What must hold in every world of the model.
extension GateModel {
    var isFinished: Bool { threads.allSatisfy { $0.activity == .done } }

    var holdsLock: Bool { threads.contains { $0.holdsLock && !$0.isEarly } }

    private var isOpening: Bool {
        threads.contains { $0.activity == .opening || $0.activity == .notifyingOfOpening }
    }

    /// What is wrong with this world; nil when nothing is.
    func check() -> String? {
        violation ?? checkRequests() ?? checkVisits() ?? checkAccesses() ?? checkWaiters() ?? checkInterruptions()
            ?? checkSystem()
            ?? checkRest()
    }

    /// A thread that waits outside of a closed gate waits for good when no other thread is left.
    func checkEnd() -> String? { isFinished || machine.isClosed ? nil : "all threads wait" }

    /// F1, F3, F5: where the system may freeze the process, no lock is held, except by what was aborted in time, and could not be interrupted:
    /// it does not commit any more, and the answer has reported it.
    private func checkSystem() -> String? {
        guard let system, system.mayFreeze, !machine.isAbandoned else { return nil }
        for thread in threads where thread.holdsLock && !thread.isEarly {
            let visit = machine.visits.first { $0.id == thread.visit }
            if visit?.isAborted != true { return "F3: a process that may be frozen holds the lock of a \(thread.role)" }
        }
        return nil
    }

    private func checkRequests() -> String? {
        let isToBeClosed = machine.requests.isClosed
        if machine.isAbandoned, machine.isClosed || isToBeClosed { return "an abandoned gate is closed" }
        if isToBeClosed, !machine.isClosed { return "F1: the gate is open, against the requests" }
        if machine.isClosed, !isToBeClosed, !isOpening { return "F1: the gate is closed, and no thread opens it" }
        if machine.mustSettle, !machine.isClosed, !machine.isAbandoned {
            return "F6: the last visit would settle an open gate"
        }
        return nil
    }

    private func checkVisits() -> String? {
        if machine.requests.isClosed, machine.settled == .closed, holdsLock {
            return "F6: a lock is held behind a gate that was settled"
        }
        let mustNotCommit = machine.visits.contains(where: \.mustNotCommit)
        if mustNotCommit != machine.mustNotCommit { return "F3: mustNotCommit is \(machine.mustNotCommit)" }
        let pending = threads.count { thread in
            switch (thread.activity, thread.role) {
            case (.asking, _), (.starting, _), (.refused, _), (_, .settler(endsUse: true)): true
            default: false
            }
        }
        if uses != machine.uses + pending {
            return "F5: the assertion is used \(uses) times, by \(machine.uses) visits and \(pending) threads"
        }
        return nil
    }

    /// What an answer, an event or an error says of a visit.
    private func checkAccesses() -> String? {
        var running: UInt64?
        for (index, thread) in threads.enumerated() where thread.visit != 0 {
            guard let kind = thread.kind else { continue }
            let expected = access(kind, ofThread: index, hasStarted: thread.hasStarted)
            let found = machine.access(thread.visit, at: Moment.answering)
            if found != expected { return "F3: the access is \(found, default: "none"), not \(expected)" }
            if kind == .write, thread.hasStarted { running = thread.visit }
        }
        if machine.running?.id != running { return "F3: the running write is another one" }
        return nil
    }

    private func access(
        _ kind: SuspensionReport.Access.Kind,
        ofThread index: Int,
        hasStarted: Bool
    ) -> SuspensionReport.Access {
        // A checkpoint runs at once, where a notice precedes the freeze. The line of code of a write is shown when it runs.
        let isShown = hasStarted && kind == .write
        let isAtOnce = kind == .checkpoint && !checkpointsNeedAssertion
        let since = hasStarted && !isAtOnce ? Moment.starting : Moment.entering
        return SuspensionReport.Access(
            kind: kind,
            callSite: "\(isShown ? "shown" : "entered"):\(index)",
            duration: .nanoseconds(Int64(Moment.answering - since))
        )
    }

    /// What the answer of a suspension must be.
    func expectedOutcome(holding held: SuspensionReport.Access?, isProtecting: Bool) -> SuspensionReport.Outcome {
        if machine.isAbandoned { return .released }
        if !machine.requests.isClosed {
            let names = machine.requests.protectors
            return names.isEmpty ? .resumed : .protected(names)
        }
        if let held { return isProtecting ? .protected(["\(held)"]) : .held(held) }
        guard let ended else { return .released }
        let access = access(ended.kind, ofThread: ended.thread, hasStarted: true)
        return ended.how == .partly ? .interrupted(access) : .rolledBack(access)
    }

    private func checkWaiters() -> String? {
        for thread in threads where thread.isWaiter {
            switch thread.activity {
            case .waitingOutside(isAsleep: true) where !machine.isClosed:
                return "F2: a thread sleeps outside of an open gate"
            case .asleep where machine.isDrained && !isOpening:
                return "F3: the suspending thread sleeps, and all visits have left or committed"
            default: continue
            }
        }
        return nil
    }

    private func checkInterruptions() -> String? {
        for thread in threads {
            guard case .interrupting(let writes, let checkpoint) = thread.activity else { continue }
            let aborted = machine.visits.filter(\.isAborted)
            if writes, !aborted.contains(where: { $0.kind != .checkpoint }) { return "F3: no write to interrupt" }
            if checkpoint, !aborted.contains(where: { $0.kind == .checkpoint }) {
                return "F3: no checkpoint to interrupt"
            }
            if writes || checkpoint, threads.contains(where: { $0.kind == .closing && $0.holdsLock }) {
                return "F3: a connection is interrupted while it closes"
            }
        }
        return nil
    }

    /// What must hold when no thread changes the requests, settles or opens, and no visit is inside.
    private func checkRest() -> String? {
        let isAtRest = threads.allSatisfy { thread in
            switch thread.activity {
            case .done, .outside, .waitingOutside: true
            default: false
            }
        }
        guard isAtRest else { return nil }
        if !machine.visits.isEmpty { return "a visit was left behind" }
        if uses != 0 { return "F5: the assertion is used, and no visit is inside" }
        if machine.mustSettle { return "the last visit has left, and has not settled the gate" }
        if machine.isAbandoned { return nil }
        if machine.isClosed, let system, system.ofWrites != .none {
            return "F5: the assertion of writes is kept behind a closed gate"
        }
        if machine.requests.isClosed != (machine.settled != .open) { return "F6: the gate was not settled" }
        return nil
    }
}
