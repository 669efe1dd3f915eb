import RoundtableUnitSupport

@testable import RoundtableCore
@testable import RoundtableGate

/// What the thread of the writer's queue does, as `SharedDatabase.run` does it.
extension SharedCommitModel {
    func stepsOfWriter() -> [Change] {
        switch writer {
        case .idle:
            guard let first = queue.first else { return [] }
            return [
                (
                    "writer begins \(first)",
                    { world in
                        world.queue.removeFirst()
                        world.beginAccess(first)
                    }
                )
            ]
        case .starting(let job):
            return [
                (
                    "writer starts",
                    { world in
                        if world.isGateClosed { return world.end(.turnedBack, nil) }
                        world.writer = .waitingForLock(job)
                    }
                )
            ]
        case .waitingForLock(let job): return stepsOfWait(job)
        case .taking: return [("writer takes", { $0.take() })]
        case .running(let write, let extent): return stepsOfClosure(write, extent)
        case .finishing: return stepsOfCommit()
        case .ending(let end, let failure):
            return [("writer ends \(end)", { $0.endAccess(end, failure) })]
        case .scheduling(let group):
            return [
                (
                    "writer schedules group \(group)",
                    { world in
                        world.writer = .delivering
                        world.schedule(group)
                        world.rest()
                    }
                )
            ]
        case .delivering:
            return [
                (
                    "writer delivers \(outcomes[0])",
                    { world in
                        world.deliver(world.outcomes.removeFirst())
                        world.rest()
                    }
                )
            ]
        }
    }

    private mutating func beginAccess(_ job: Job) {
        if case .group(let group) = job {
            guard let access = groups.beginAccess(group) else { return }
            lastTicket = access.lastTicket
            if Int(lastTicket) != arrivals {
                violation = "the ticket of the access is not the number of the last request"
            }
        }
        arrivalsAtAccess = arrivals
        self.job = job
        writer = .starting(job)
    }

    private func stepsOfWait(_ job: Job) -> [Change] {
        var changes: [Change] = []
        if lock == nil {
            changes.append(
                (
                    "writer gets the lock",
                    { world in
                        if world.isCancelled(job) { return world.end(.failed, .cancelled) }
                        world.lock = .writer
                        if case .lone(let write) = job {
                            world.transaction.append(write)
                            world.noteRun(of: write)
                            world.writer = .running(write, .transaction(isShareable: false))
                        } else {
                            world.writer = job == .scheduled ? .finishing : .taking
                        }
                    }
                )
            )
        }
        if isGateClosed {
            changes.append(("writer stops for the gate", { $0.end(.turnedBack, nil) }))
        }
        if isCancelled(job) {
            changes.append(("writer stops when cancelled", { $0.end(.failed, .cancelled) }))
        }
        if budget.timeouts > 0 {
            changes.append(
                (
                    "writer loses patience",
                    { world in
                        world.budget.timeouts -= 1
                        world.end(.failed, .timeout)
                    }
                )
            )
        }
        return changes
    }

    private func isCancelled(_ job: Job) -> Bool {
        if case .lone(let write) = job { tasks[write].isCancelled } else { isAccessCancelled }
    }

    private mutating func take() {
        guard case .group(let group) = job else { return }
        let alone = broken == .forgetsEndings ? [] : endings
        let taken = groups.take(from: group, into: &transaction) { alone.contains($0 % 2) }
        guard let (write, extent) = taken else {
            writer = .finishing
            return
        }
        noteRun(of: write)
        if transaction.writes.count > 1, transaction.writes.contains(where: { endings.contains(site(of: $0)) }) {
            violation = "M5a: a write whose closure has ended a transaction shares one"
        }
        if endings.contains(site(of: write)), extent == .savepoint {
            violation = "M5a: \(write) may share its transaction"
        }
        if tasks[write].arrival < lastArrival {
            violation = "M1: \(write) runs before a write that came earlier"
        }
        if tasks[write].isAfterScheduled, !hasScheduledRun {
            violation = "M7: \(write) runs before a write that was scheduled earlier"
        }
        lastArrival = tasks[write].arrival
        tasks[write].isTaken = true
        writer = .running(write, extent)
    }

    private mutating func noteRun(of write: Int) {
        if tasks[write].hasRun { violation = "M5: the closure of \(write) runs again" }
        tasks[write].hasRun = true
        tasks[write].hasSeenParts = pending.contains { $0 > 0 }
    }

    private func stepsOfClosure(_ write: Int, _ extent: Transaction.Extent) -> [Change] {
        let isPart = extent == .savepoint
        if isAborted {
            return [
                (
                    "\(write) is interrupted",
                    { world in
                        world.tasks[write].failure = .ownClosure
                        world.end(.failed, .interrupted)
                    }
                )
            ]
        }
        if tasks[write].isCancelled {
            return [
                ("\(write) finds itself cancelled", { $0.didThrow(write, isPart: isPart, .cancelled) })
            ]
        }
        var changes: [Change] = [
            ("\(write) writes", { $0.didWrite(write, extent, isSliceOver: false) })
        ]
        if budget.slices > 0, extent != .transaction(isShareable: false) {
            changes.append(
                (
                    "\(write) writes until its slice is over",
                    { $0.didWrite(write, extent, isSliceOver: true) }
                )
            )
        }
        if budget.failures > 0 {
            changes.append(
                (
                    "\(write) throws",
                    { world in
                        world.budget.failures -= 1
                        world.pending[write] += 1
                        world.didThrow(write, isPart: isPart, .ownClosure)
                    }
                )
            )
        }
        if budget.rollbacks > 0 {
            changes.append(
                (
                    "\(write) rolls the transaction back",
                    { world in
                        world.budget.rollbacks -= 1
                        world.tasks[write].failure = .ownClosure
                        world.endings.insert(world.site(of: write))
                        if isPart, world.broken != .hidesTheCulprit { world.transaction.lastHasEnded() }
                        world.end(.failed, .ownClosure)
                    }
                )
            )
        }
        return changes
    }

    private mutating func didWrite(_ write: Int, _ extent: Transaction.Extent, isSliceOver: Bool) {
        if tasks[write].result != nil { violation = "\(write) runs after its result" }
        pending[write] += 1
        transaction.lastIsPart()
        if isSliceOver { budget.slices -= 1 }
        writer = isSliceOver || extent == .transaction(isShareable: false) ? .finishing : .taking
    }

    private mutating func didThrow(_ write: Int, isPart: Bool, _ failure: Failure) {
        tasks[write].failure = failure
        guard isPart else {
            if pending.indices.contains(where: { $0 != write && pending[$0] > 0 }) {
                violation = "M2: what \(write) throws undoes the parts of others"
            }
            return end(.failed, failure)
        }
        if broken != .failedPartStays { pending[write] = 0 }
        writer = .taking
    }

    private func stepsOfCommit() -> [Change] {
        if case .group = job, !transaction.hasPart {
            return [("nothing is to be committed", { $0.end(.final, nil) })]
        }
        if isAborted { return [("the commit is vetoed", { $0.end(.failed, .interrupted) })] }
        var changes: [Change] = [
            (
                "writer commits",
                { world in
                    for index in world.tasks.indices { world.committed[index] += world.pending[index] }
                    world.end(world.broken == .failsTheCommitted ? .failed : .final, .transaction)
                }
            )
        ]
        if budget.commitFailures > 0 {
            changes.append(
                (
                    "the commit fails",
                    { world in
                        world.budget.commitFailures -= 1
                        world.end(.failed, .transaction)
                    }
                )
            )
        }
        return changes
    }

    /// The transaction has ended, if there was one.
    private mutating func end(_ end: Transaction.End, _ failure: Failure?) {
        for index in pending.indices { pending[index] = 0 }
        if lock == .writer { lock = nil }
        writer = .ending(end, failure)
    }

    private mutating func endAccess(_ end: Transaction.End, _ failure: Failure?) {
        // An aborted visit is gone.
        isAborted = false
        switch job {
        case .lone(let write):
            // What the closure has thrown comes first.
            let failed: Result = .threw(tasks[write].failure ?? failure ?? .transaction)
            let result: Result? = end == .turnedBack ? nil : end == .final ? .returned : failed
            tasks[write].activity = .endingAlone(result)
            tasks[write].failure = nil
            writer = .delivering
        case .scheduled:
            hasScheduledRun = true
            writer = .delivering
        case .group(let group):
            check(end, failure)
            let (ended, mustSchedule) = groups.end(group, transaction, end, lastTicket: lastTicket)
            check(ended, end, failure, in: group)
            outcomes = ended.map { Outcome(write: $0.write, outcome: $0.outcome, failure: failure) }
            writer = mustSchedule && broken != .forgetsTheRest ? .scheduling(group) : .delivering
        case nil: break
        }
        (job, lastTicket, transaction, isAccessCancelled, lastArrival, arrivalsAtAccess) = (
            nil, 0, Transaction(), false, 0, 0
        )
        if case .delivering = writer { rest() }
    }

    private mutating func rest() { if outcomes.isEmpty { writer = .idle } }
}
