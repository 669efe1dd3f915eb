import RoundtableUnitSupport

@testable import RoundtableCore
@testable import RoundtableGate

extension SharedCommitModel: WalkedModel {
    typealias Step = String
    typealias Change = (name: String, apply: (inout SharedCommitModel) -> Void)

    func successors() -> [(step: String, world: SharedCommitModel)] {
        var changes = stepsOfOtherParticipants()
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

    // MARK: Other participants

    private func stepsOfOtherParticipants() -> [Change] {
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

    /// The content of the database stays, and so does what the callers know.
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
        (arrivals, arrivalsAtAccess, lastGroup, endings) = (0, 0, 0, [])
        (outcomes, lastArrival, isGateClosed, isAborted) = ([], 0, false, false)
    }
}
