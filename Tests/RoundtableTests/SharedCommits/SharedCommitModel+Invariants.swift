@testable import RoundtableCore

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
        if isDead { return lock == nil ? nil : "the write lock is held for ever" }
        if let waiting = tasks.firstIndex(where: { $0.result == nil }) {
            return "\(waiting) waits for ever"
        }
        // A write that comes later must not join a group that nobody runs.
        var next = groups
        if !next.beginAlone() {
            guard let group = next.join(0, isAlone: false) else {
                return "later writes join a group that nobody runs"
            }
            guard let access = next.beginAccess(group) else { return "a later write does not wait" }
            var transaction = Transaction()
            guard next.take(from: group, into: &transaction) != nil else {
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

    /// Checks how an access of a group ends, before the groups are told.
    mutating func check(_ end: Transaction.End, _ failure: Failure?) {
        if end == .turnedBack, !transaction.writes.isEmpty {
            violation = "M6: the gate turns a transaction back that has begun"
        }
    }

    /// Checks that each write fails because of itself, or because of what it was alone in.
    mutating func check(_ ended: [(write: Int, outcome: Transaction.Outcome)], _ failure: Failure?) {
        let writes = transaction.writes
        if Set(ended.map(\.write)).count != ended.count { violation = "a write has two outcomes" }
        if !Set(writes).isSubset(of: ended.map(\.write)) {
            violation = "a write of the transaction has no outcome"
        }
        if writes.count == 1, ended.contains(where: { $0.outcome == .again }) {
            violation = "M3: a write that was alone runs again, and does not fail"
        }
        for (write, outcome) in ended where outcome == .failed {
            switch failure {
            case .cancelled where !tasks[write].isCancelled:
                violation = "M9: \(write) fails because others were cancelled"
            case .transaction where writes != [write]:
                violation = "M5: \(write) fails because of the transaction of several"
            case .interrupted where writes != [write] && writes.last != write:
                violation = "M5: \(write) fails because of the interruption of another one"
            case .timeout where tasks[write].arrival > Int(lastTicket):
                violation = "\(write) fails because of a wait that began before it came"
            default: break
            }
        }
    }
}
