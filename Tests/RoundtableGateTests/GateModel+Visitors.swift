import RoundtableKernel
import RoundtableTestBasics

@testable import RoundtableGate

/// What a visit does at the gate, one event of the machine a step.
extension GateModel {
    mutating func enter(_ index: Int) {
        guard let kind = threads[index].kind else { return }
        let wasClosed = machine.requests.isClosed
        let site = CallSite("entered", UInt(index))
        let isRunning = kind == .checkpoint && !checkpointsNeedAssertion
        let id = machine.enter(kind, site: site, isRunning: isRunning, at: Moment.entering)
        guard let id else { return go(index, .outside) }
        if wasClosed { violation = "a visit enters a closed gate" }
        threads[index].visit = id
        threads[index].hasStarted = isRunning
        switch kind {
        case .checkpoint: go(index, isRunning ? .running : .waitingForConnection)
        case .closing: go(index, .waitingForInterruption)
        default: go(index, .waitingForConnection)
        }
    }

    mutating func beginUse(_ index: Int) {
        uses += 1
        threads[index].hasConnection = threads[index].kind == .write
        go(index, needsAssertion ? .asking : .starting)
    }

    mutating func start(_ index: Int) {
        let wasClosed = machine.requests.isClosed
        let hasStarted = machine.start(threads[index].visit, at: Moment.starting)
        if hasStarted, wasClosed { violation = "a visit starts behind a closed gate" }
        threads[index].hasStarted = hasStarted
        if hasStarted, threads[index].kind == .write {
            machine.show(CallSite("shown", UInt(index)), of: threads[index].visit)
        }
        if hasStarted, isUnprotected { return turnBack(index) }
        go(index, hasStarted ? .running : .refused)
    }

    /// The work of a visit ends. A statement or a commit fails when the visit must not commit.
    mutating func end(_ index: Int) {
        switch threads[index].kind {
        case .write: go(index, machine.mustNotCommit ? .leaving(.rolledBack) : .committing)
        case .opening: go(index, .leaving(machine.mustNotCommit ? .rolledBack : nil))
        // It stands for a write of several transactions.
        case .read: go(index, .leaving(machine.mustNotCommit ? .partly : nil))
        case .closing: go(index, .abandoning)
        default: go(index, .leaving(nil))
        }
    }

    mutating func beginStep(_ index: Int) {
        let wasClosed = machine.requests.isClosed
        let mayBegin = machine.runningMayBeginStep()
        threads[index].isEarly = false
        if mayBegin, wasClosed { violation = "a step begins behind a closed gate" }
        if mayBegin, isUnprotected { return turnBack(index) }
        go(index, mayBegin ? .makingStep : .leaving(nil))
    }

    mutating func continueWriting(_ index: Int) {
        threads[index].continuations -= 1
        threads[index].isEarly = false
        let isClosed = machine.runningContinues()
        let isUnprotected = !isClosed && isUnprotected
        if isUnprotected { turnBack(index) }
        go(index, isClosed || isUnprotected ? .aborting : .running)
    }

    mutating func leave(_ index: Int, _ how: GateMachine.Interruption?, evenIfAborted: Bool) {
        guard let left = machine.leave(threads[index].visit, how, evenIfAborted: evenIfAborted) else {
            return go(index, .leavingAborted(how))
        }
        if let how, let kind = threads[index].kind { ended = Ended(thread: index, kind: kind, how: how) }
        if left.endsUse { uses -= 1 }
        if left.wakesWaiters { wake() }
        if left.mustSettle { settleLater(endsUse: left.endsUseAfterSettling) }
        finish(index)
    }
}
