@testable import RoundtableCore

extension SharedCommitModel: WalkedModel {
    typealias Step = String
    private typealias Change = (name: String, apply: (inout SharedCommitModel) -> Void)

    func successors() -> [(step: String, world: SharedCommitModel)] {
        var changes = stepsOfOthers()
        if !isDead {
            for index in tasks.indices { changes += steps(ofTask: index) }
            changes += stepsOfWriter()
        }
        return changes.map { change in
            var world = self
            change.apply(&world)
            return (change.name, world)
        }
    }

    // MARK: The tasks

    private func steps(ofTask index: Int) -> [Change] {
        let task = tasks[index]
        var changes: [Change] = []
        switch task.activity {
        case .starting:
            changes = [("\(index) begins", { $0.begin(index) })]
        case .enteringAlone:
            changes = [("\(index) enters alone", { $0.enterAlone(index) })]
        case .endingAlone(let result):
            changes = [("\(index) ends alone", { $0.endAlone(index, result) })]
        case .joining:
            changes = [("\(index) joins", { $0.join(index) })]
        case .scheduling(let group):
            changes = [
                (
                    "\(index) schedules group \(group)",
                    { world in
                        world.tasks[index].activity = .awaiting
                        world.schedule(group)
                    }
                )
            ]
        case .awaiting:
            if task.outcome != nil { changes = [("\(index) continues", { $0.continueTask(index) })] }
        case .outside:
            if task.isCancelled {
                changes = [("\(index) is cancelled outside", { $0.finish(index, .threw(.cancelled)) })]
            } else if !isGateClosed {
                changes = [("\(index) goes in again", { $0.tasks[index].activity = .starting })]
            }
        case .awaitingAlone, .done: break
        }
        if budget.cancellations > 0, !task.isCancelled, task.result == nil {
            changes.append(("\(index) is cancelled", { $0.cancel(index) }))
        }
        return changes
    }

    private mutating func begin(_ index: Int) {
        // A task checks for its cancellation before it waits, but not before a write that is alone.
        if groups.beginAlone() {
            tasks[index].activity = .enteringAlone
            note(arrivalOf: index)
        } else if tasks[index].isCancelled {
            finish(index, .threw(.cancelled))
        } else {
            tasks[index].activity = .joining
        }
    }

    private mutating func enterAlone(_ index: Int) {
        if isGateClosed {
            tasks[index].activity = .endingAlone(nil)
            return
        }
        tasks[index].activity = .awaitingAlone
        queue.append(.lone(index))
    }

    private mutating func endAlone(_ index: Int, _ result: Result?) {
        groups.endAlone()
        if let result { finish(index, result) } else { goOutside(index) }
    }

    private mutating func join(_ index: Int) {
        tasks[index].outcome = nil
        tasks[index].failure = nil
        tasks[index].isTaken = false
        if tasks[index].isCancelled {
            tasks[index].activity = .awaiting
            return deliver(Outcome(write: index, outcome: .failed, failure: .cancelled))
        }
        let isAlone = tasks[index].isAgain && broken != .retriesTogether
        let founded = groups.join(index, isAlone: isAlone)
        tasks[index].activity = founded.map { .scheduling($0) } ?? .awaiting
        note(arrivalOf: index)
    }

    private mutating func note(arrivalOf index: Int) {
        tasks[index].arrival = Int(groups.lastTicket)
        tasks[index].isAfterScheduled = scheduling == .hasReturned
    }

    private mutating func cancel(_ index: Int) {
        budget.cancellations -= 1
        tasks[index].isCancelled = true
        switch tasks[index].activity {
        case .scheduling, .awaiting:
            let (wasWaiting, emptied) = groups.cancel { $0 == index }
            if let emptied, job == .group(emptied) { isAccessCancelled = true }
            if wasWaiting { deliver(Outcome(write: index, outcome: .failed, failure: .cancelled)) }
        default: break
        }
    }

    private mutating func continueTask(_ index: Int) {
        let task = tasks[index]
        switch task.outcome {
        case .final, .failed: finish(index, task.failure.map { .threw($0) } ?? .returned)
        case .again:
            tasks[index].isAgain = true
            if task.isCancelled {
                finish(index, .threw(.cancelled))
            } else {
                tasks[index].activity = .joining
            }
        case .turnedBack:
            goOutside(index)
        case nil: break
        }
    }

    private mutating func goOutside(_ index: Int) {
        tasks[index].activity = .outside
        tasks[index].isAgain = false
        tasks[index].outcome = nil
        tasks[index].failure = nil
    }

    private mutating func finish(_ index: Int, _ result: Result) {
        // Nothing else of the task counts any more.
        tasks[index] = Task(activity: .done(result))
    }

    // MARK: Scheduling

    /// Lets a group enter the gate, and puts it on the writer's queue.
    private mutating func schedule(_ group: Group) {
        guard isGateClosed else { return queue.append(.group(group)) }
        let writes = groups.refuse(group)
        if broken == .refusesWithoutTelling { return }
        for write in writes { deliver(Outcome(write: write, outcome: .turnedBack, failure: nil)) }
    }

    private mutating func deliver(_ outcome: Outcome) {
        let write = outcome.write
        if tasks[write].result != nil || tasks[write].outcome != nil {
            violation = "\(write) has two results"
        }
        if outcome.outcome != .final, committed[write] > 0 {
            violation = "M5: \(write) is committed, and \(outcome)"
        }
        tasks[write].outcome = outcome.outcome
        if outcome.outcome == .failed { tasks[write].failure = outcome.failure }
    }

    // MARK: The writer's queue

    private func stepsOfWriter() -> [Change] {
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
        case .beginning(let job), .starting(let job):
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
        }
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
                            world.transaction.writes = [write]
                            world.writer = .running(write, .transaction(isShareable: false))
                        } else {
                            world.writer = job == .scheduled ? .finishing : .taking
                        }
                    }
                )
            )
        }
        if isGateClosed {
            changes.append(("writer gives up for the gate", { $0.end(.turnedBack, nil) }))
        }
        if isCancelled(job) {
            changes.append(("writer gives up when cancelled", { $0.end(.failed, .cancelled) }))
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
        guard let (write, extent) = groups.take(from: group, into: &transaction) else {
            writer = .finishing
            return
        }
        if transaction.writes.count > 1, transaction.writes.contains(where: { tasks[$0].isAgain }) {
            violation = "M5: a write that runs again shares a transaction"
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

    private func stepsOfClosure(_ write: Int, _ extent: Transaction.Extent) -> [Change] {
        let isPart = extent == .savepoint
        if isAborted {
            return [
                (
                    "\(write) is interrupted",
                    { world in
                        world.tasks[write].failure = .ownClosure
                        if isPart { world.transaction.lastWasInterrupted() }
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
                        world.end(.failed, .transaction)
                    }
                )
            )
        }
        return changes
    }

    private mutating func didWrite(_ write: Int, _ extent: Transaction.Extent, isSliceOver: Bool) {
        if tasks[write].result != nil { violation = "\(write) runs after its result" }
        pending[write] += 1
        transaction.hasPart = true
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
            check(ended, failure)
            outcomes = ended.map { Outcome(write: $0.write, outcome: $0.outcome, failure: failure) }
            writer = mustSchedule && broken != .forgetsTheRest ? .scheduling(group) : .delivering
        case nil: break
        }
        (job, lastTicket, transaction, isAccessCancelled, lastArrival) = (
            nil, 0, Transaction(), false, 0
        )
        if case .delivering = writer { rest() }
    }

    private mutating func rest() { if outcomes.isEmpty { writer = .idle } }

    // MARK: Others

    private func stepsOfOthers() -> [Change] {
        var changes: [Change] = []
        if lock == .foreign {
            changes.append(("the raw handle commits", { $0.lock = nil }))
        } else if lock == nil, budget.foreignCommits > 0 {
            changes.append(
                (
                    "the raw handle gets the lock",
                    { world in
                        world.budget.foreignCommits -= 1
                        world.lock = .foreign
                    }
                )
            )
        }
        if isDead { return changes }
        changes += stepsOfGate()
        switch scheduling {
        case .toCall: changes.append(("a write is scheduled", { $0.scheduleLater() }))
        case .toCloseGroup:
            changes.append(("the call of the scheduled write returns", { $0.returnFromScheduling() }))
        case .hasReturned, nil: break
        }
        if budget.deaths > 0 { changes.append(("the process dies", { $0.die() })) }
        return changes
    }

    private mutating func scheduleLater() {
        scheduling = .toCloseGroup
        if broken == .closesGroupEarly { groups.closeGroup() } else { enterScheduled() }
    }

    private mutating func returnFromScheduling() {
        scheduling = .hasReturned
        if broken == .closesGroupEarly { enterScheduled() } else { groups.closeGroup() }
    }

    private mutating func enterScheduled() {
        // A write that the gate turns back is scheduled again when it opens.
        if isGateClosed { hasScheduledRun = true } else { queue.append(.scheduled) }
    }

    private func stepsOfGate() -> [Change] {
        var changes: [Change] = []
        if isGateClosed {
            changes.append(("the gate opens", { $0.isGateClosed = false }))
            if lock == .writer, !isAborted {
                changes.append(("the gate aborts", { $0.isAborted = true }))
            }
        } else if budget.closings > 0 {
            changes.append(
                (
                    "the gate closes",
                    { world in
                        world.budget.closings -= 1
                        world.isGateClosed = true
                    }
                )
            )
        }
        return changes
    }

    /// What is in the database stays, and what the callers know.
    private mutating func die() {
        isDead = true
        budget = Budget(foreignCommits: budget.foreignCommits)
        if lock == .writer { lock = nil }
        for index in tasks.indices {
            pending[index] = 0
            tasks[index] = Task(activity: tasks[index].result.map { .done($0) } ?? .outside)
        }
        (groups, queue, writer) = (CommitGroups(), [], .idle)
        (scheduling, hasScheduledRun) = (nil, false)
        (job, lastTicket, transaction, isAccessCancelled) = (nil, 0, Transaction(), false)
        (outcomes, lastArrival, isGateClosed, isAborted) = ([], 0, false, false)
    }
}
