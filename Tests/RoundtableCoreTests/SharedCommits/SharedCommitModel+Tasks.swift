import RoundtableUnitSupport

@testable import RoundtableCore

/// What the tasks do that write, as `SharedDatabase.onWriterSharing` does it.
extension SharedCommitModel {
    func steps(ofTask index: Int) -> [Change] {
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
        let founded = groups.join(index)
        tasks[index].activity = founded.map { .scheduling($0) } ?? .awaiting
        lastGroup = founded ?? lastGroup
        tasks[index].group = lastGroup
        note(arrivalOf: index)
    }

    private mutating func note(arrivalOf index: Int) {
        arrivals += 1
        if Int(groups.lastTicket) != arrivals { violation = "a ticket is not the number of the request" }
        tasks[index].arrival = arrivals
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
        case .lost where broken == .runsLostAgain: tasks[index].activity = .joining
        case .final, .failed, .lost: finish(index, task.failure.map { .threw($0) } ?? .returned)
        case .turnedBack:
            goOutside(index)
        case nil: break
        }
    }

    private mutating func goOutside(_ index: Int) {
        tasks[index].activity = .outside
        tasks[index].outcome = nil
        tasks[index].failure = nil
    }

    private mutating func finish(_ index: Int, _ result: Result) {
        // Nothing else of the task counts any more.
        tasks[index] = Task(activity: .done(result))
    }

    // MARK: Scheduling

    /// Lets a group enter the gate, and puts it on the writer's queue.
    mutating func schedule(_ group: Group) {
        guard isGateClosed else { return queue.append(.group(group)) }
        let writes = groups.refuse(group)
        if broken == .refusesWithoutNotifying { return }
        for write in writes { deliver(Outcome(write: write, outcome: .turnedBack, failure: nil)) }
    }

    mutating func deliver(_ outcome: Outcome) {
        let write = outcome.write
        if tasks[write].result != nil || tasks[write].outcome != nil {
            violation = "\(write) has two results"
        }
        if outcome.outcome != .final, committed[write] > 0 {
            violation = "M5: \(write) is committed, and \(outcome)"
        }
        tasks[write].outcome = outcome.outcome
        switch outcome.outcome {
        case .failed: tasks[write].failure = outcome.failure
        case .lost: tasks[write].failure = .lost
        case .final, .turnedBack: break
        }
    }
}
