import RoundtableKernel
import Synchronization

// Rule M6: A group is one access of the gate (rule F2), and has one turn. While a closure runs, the access and the slot name its line of
// code. A gate that closes before the transaction has begun turns all writes of the group back.

// Rule M9: Cancelling takes a write out that has not begun, and nothing else. When no write of a group is left, its wait for the turn ends.

/// The asynchronous writes of a participant that wait for the writer connection (rules M).
///
/// ``CommitGroups`` decides which of them share transactions. This holds it under a lock, and ends waits for the turn when no write is left.
/// It knows neither connections nor transactions. Safe from any thread.
final class SharedCommits: Sendable {
    typealias Group = CommitGroups<WaitingWrite>.Group
    typealias Transaction = SharedTransaction<WaitingWrite>

    private struct State {
        var groups = CommitGroups<WaitingWrite>()
        /// What ends the waits for the turn of the groups that have an access.
        var cancellations: [Group: WaitCancellation] = [:]
        var endings = TransactionEndings()
    }

    private let state = Mutex(State())

    /// The number of writes that were requested, for tests.
    var requestCount: UInt64 { state.withLock { $0.groups.lastTicket } }

    // MARK: Requesting

    /// - returns: whether the write is alone. Call `endAlone` when it has ended.
    func beginAlone() -> Bool { state.withLock { $0.groups.beginAlone() } }

    func endAlone() { state.withLock { $0.groups.endAlone() } }

    enum Joining {
        case joined
        /// The write is the first of a group, which must be scheduled.
        case founded(Group)
        /// The write was cancelled before, and waits nowhere.
        case cancelled
    }

    func join(_ write: WaitingWrite) -> Joining {
        state.withLock { state in
            if write.isCancelled { return .cancelled }
            return state.groups.join(write).map { .founded($0) } ?? .joined
        }
    }

    /// Begins another group, because an access is about to be scheduled that must run before later writes.
    func closeGroup() { state.withLock { $0.groups.closeGroup() } }

    /// Takes all writes out of a group that cannot be scheduled. Later writes form another one.
    func refuse(_ group: Group) -> [WaitingWrite] { state.withLock { $0.groups.refuse(group) } }

    /// - returns: whether the write waited. Its caller must be told then. A write that has been taken is not cancelled.
    func cancel(_ write: WaitingWrite) -> Bool {
        let (wasWaiting, cancellation) = state.withLock { state -> (Bool, WaitCancellation?) in
            write.isCancelled = true
            let (wasWaiting, emptied) = state.groups.cancel { $0 === write }
            return (wasWaiting, emptied.flatMap { state.cancellations[$0] })
        }
        cancellation?.cancel()
        return wasWaiting
    }

    // MARK: Running

    /// The next access of a group.
    struct Access {
        /// The line of code of the first write.
        let site: CallSite?
        /// Ends the wait for the turn when no write of the group waits any more.
        let cancellation: WaitCancellation
        /// The ticket of the last write that was requested before the access began.
        fileprivate let lastTicket: UInt64
    }

    /// Begins an access, which takes writes of the group until it calls `end`.
    ///
    /// - returns: nil when no write of the group waits any more, because all were cancelled. The access then has nothing to do, and must not
    ///   call `end`.
    func beginAccess(_ group: Group) -> Access? {
        state.withLock { state in
            guard let (first, lastTicket) = state.groups.beginAccess(group) else { return nil }
            let cancellation = WaitCancellation()
            state.cancellations[group] = cancellation
            return Access(site: first.site, cancellation: cancellation, lastTicket: lastTicket)
        }
    }

    /// Takes the next write out of the group, if it may share the transaction, to which it is added.
    func take(
        from group: Group,
        into transaction: inout Transaction
    ) -> (write: WaitingWrite, extent: Transaction.Extent)? {
        state.withLock { state in
            let endings = state.endings
            return state.groups.take(from: group, into: &transaction) { endings.contains($0.site) }
        }
    }

    /// Whether the closure at a line of code has ended a transaction.
    func hasEnding(at site: CallSite) -> Bool { state.withLock { $0.endings.contains(site) } }

    /// Notes that the closure at a line of code has ended its transaction. Its writes share none from now on.
    func closureEndsTransactions(at site: CallSite) { state.withLock { $0.endings.insert(site) } }

    /// - returns: how writes have ended, and whether others of the group wait, so that it must be scheduled again.
    func end(
        _ group: Group,
        _ access: Access,
        _ transaction: Transaction,
        _ end: Transaction.End
    ) -> (outcomes: [(write: WaitingWrite, outcome: Transaction.Outcome)], mustSchedule: Bool) {
        state.withLock { state in
            state.cancellations[group] = nil
            return state.groups.end(group, transaction, end, lastTicket: access.lastTicket)
        }
    }
}
