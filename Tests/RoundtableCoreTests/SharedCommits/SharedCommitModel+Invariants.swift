import RoundtableUnitSupport

@testable import RoundtableCore
@testable import RoundtableGate

/// What must hold in every world of the model.
extension SharedCommitModel {
    func check() -> String? {
        if let violation { return violation }
        for (index, task) in tasks.enumerated() {
            if committed[index] > 1 { return "\(index) is committed twice" }
            switch task.result {
            case .returned where committed[index] == 0:
                return "M3: \(index) has returned, and is not committed"
            case .threw(let failure) where committed[index] != 0:
                return "M2: \(index) threw \(failure), and is committed"
            default: break
            }
        }
        if lock != .writer, pending.contains(where: { $0 > 0 }) {
            return "a transaction is open without the write lock"
        }
        return nil
    }

    func checkEnd() -> String? {
        if isDead { return lock == nil ? nil : "the write lock is held forever" }
        if let waiting = tasks.firstIndex(where: { $0.result == nil }) {
            return "\(waiting) waits for ever"
        }
        // A write that comes later must not join a group that no task runs.
        var next = groups
        if !next.beginAlone() {
            guard let group = next.join(0) else {
                return "later writes join a group that no task runs"
            }
            guard let access = next.beginAccess(group) else { return "a later write does not wait" }
            var transaction = Transaction()
            guard next.take(from: group, into: &transaction, isAlone: { _ in false }) != nil else {
                return "a later write is not taken"
            }
            let (outcomes, mustSchedule) = next.end(
                group,
                transaction,
                .final,
                lastTicket: access.lastTicket
            )
            if outcomes.map(\.outcome) != [.final] || mustSchedule {
                return "a write was left behind in the group"
            }
            if !next.beginAlone() { return "M1: later writes are never alone" }
        }
        return nil
    }

    /// Checks how an access of a group ends, before the groups are notified.
    mutating func check(_ end: Transaction.End, _ failure: Failure?) {
        if end == .turnedBack, !transaction.writes.isEmpty {
            violation = "M6: the gate turns a transaction back that has begun"
        }
    }

    /// Checks that each write fails because of itself, or because of the transaction or the wait that it was in, and says which.
    mutating func check(
        _ ended: [(write: Int, outcome: Transaction.Outcome)],
        _ end: Transaction.End,
        _ failure: Failure?,
        in group: Group
    ) {
        let writes = transaction.writes
        if Set(ended.map(\.write)).count != ended.count { violation = "a write has two outcomes" }
        if !Set(writes).isSubset(of: ended.map(\.write)) {
            violation = "a write of the transaction has no outcome"
        }
        for (write, outcome) in ended {
            let hasThrownOwn = tasks[write].failure != nil
            switch outcome {
            case .lost where transaction.endedBy == nil || transaction.endedBy == write:
                violation = "M5: \(write) is lost because of no other write"
            case .lost where !writes.contains(write):
                violation = "M5: \(write) is lost with a transaction in which it did not run"
            case .final where end == .failed && (!hasThrownOwn || tasks[write].hasSeenParts):
                violation = "M5: the result of \(write) stands, although it depends on what is undone"
            case .lost where hasThrownOwn && !tasks[write].hasSeenParts:
                violation = "M5: the error of \(write) does not stand, although it depends on nothing that is undone"
            case .failed: checkFailure(of: write, failure, in: writes)
            case .final, .lost, .turnedBack: break
            }
        }
        if writes.isEmpty { checkThatAllHeard(ended.map(\.write), of: end, in: group) }
    }

    private mutating func checkFailure(of write: Int, _ failure: Failure?, in writes: [Int]) {
        if !writes.isEmpty, !writes.contains(write) {
            violation = "M5: \(write) fails with a transaction in which it did not run"
        }
        switch failure {
        case .cancelled where !tasks[write].isCancelled:
            violation = "M9: \(write) fails because others were cancelled"
        case .ownClosure where writes.last != write:
            violation = "M5: \(write) fails because of another closure, and does not say so"
        case .timeout where tasks[write].arrival > arrivalsAtAccess:
            violation = "\(write) fails because of a wait that began before it came"
        default: break
        }
    }

    /// Checks that a write of the group does not continue to wait if it waited when the access began, and its wait has failed or the gate turns it
    /// back.
    private mutating func checkThatAllHeard(_ ended: [Int], of end: Transaction.End, in group: Group) {
        for (index, task) in tasks.enumerated() where task.group == group && !task.isTaken && task.outcome == nil {
            switch task.activity {
            case .awaiting, .scheduling:
                if ended.contains(index) { continue }
                if end == .turnedBack { violation = "M6: \(index) waits on, although the gate turned its group back" }
                if end == .failed, task.arrival <= arrivalsAtAccess {
                    violation = "\(index) waits on, although it waited when the wait began that has failed"
                }
            default: break
            }
        }
    }
}
