import RoundtableKernel
import Synchronization

/// The asynchronous writes of a participant that wait for the writer connection, in groups that share transactions (rules M).
///
/// A write that finds no other asynchronous write is alone: it is neither delayed nor put into a group. Writes that come before it has
/// ended form a group, and so do those that come after a shared transaction, because others are likely to follow. A group is scheduled on
/// the writer's queue, and takes what has come until then, and what comes while it runs.
///
/// This keeps the lists, and knows neither connections nor transactions. Safe from any thread.
final class SharedCommits: Sendable {
    /// Writes that may share transactions, because no other access was scheduled between them.
    final class Group: @unchecked Sendable {
        // @unchecked: the lock of `SharedCommits` guards it.
        fileprivate var waiting: [WaitingWrite] = []
        /// The number of writes at the front of `waiting` that were taken.
        fileprivate var taken = 0
        /// Ends the wait for the turn when no write of the group waits any more.
        fileprivate var cancellation = WaitCancellation()

        fileprivate var isEmpty: Bool { taken == waiting.count }

        fileprivate func take() -> WaitingWrite {
            defer {
                taken += 1
                if isEmpty {
                    waiting.removeAll(keepingCapacity: true)
                    taken = 0
                }
            }
            return waiting[taken]
        }
    }

    private struct State {
        var isAlone = false
        /// Whether the last transaction of a group had more than one write. Its callers are likely to write again at the same time.
        var wasShared = false
        /// The group that new writes join; nil when they form another one.
        var open: Group?
        var lastTicket: UInt64 = 0
    }

    private let state = Mutex(State())

    /// The number of writes that were requested, for tests.
    var requestCount: UInt64 { state.withLock { $0.lastTicket } }

    // MARK: Requesting

    /// - returns: whether the write is alone. Call `endAlone` when it has ended.
    func beginAlone() -> Bool {
        state.withLock { state in
            if state.isAlone || state.wasShared || state.open != nil { return false }
            state.isAlone = true
            state.lastTicket += 1
            return true
        }
    }

    func endAlone() { state.withLock { $0.isAlone = false } }

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
            state.lastTicket += 1
            write.ticket = state.lastTicket
            let isFirst = state.open == nil
            let group = state.open ?? Group()
            group.waiting.append(write)
            write.group = group
            state.open = group
            return isFirst ? .founded(group) : .joined
        }
    }

    /// Begins another group, because an access is about to be scheduled that must run before later writes.
    func closeGroup() { state.withLock { $0.open = nil } }

    /// Lets later writes form another group than this one.
    func close(_ group: Group) {
        state.withLock { if $0.open === group { $0.open = nil } }
    }

    /// - returns: whether the write waited. Its caller must be told then. A write that has been taken is not cancelled.
    func cancel(_ write: WaitingWrite) -> Bool {
        let (wasWaiting, cancellation) = state.withLock { _ -> (Bool, WaitCancellation?) in
            write.isCancelled = true
            guard let group = write.group,
                let index = group.waiting[group.taken...].firstIndex(where: { $0 === write })
            else { return (false, nil) }
            group.waiting.remove(at: index)
            write.group = nil
            return (true, group.isEmpty ? group.cancellation : nil)
        }
        cancellation?.cancel()
        return wasWaiting
    }

    // MARK: Running

    /// The next access of a group.
    struct Access {
        /// The line of code of the first write.
        let site: CallSite?
        let cancellation: WaitCancellation
        /// The ticket of the last write that was requested before the access began.
        let lastTicket: UInt64
    }

    /// Begins an access, which takes writes of the group until it calls `end`.
    ///
    /// - returns: nil when no write of the group waits any more, because all were cancelled. The access then has nothing to do, and must not
    ///   call `end`.
    func beginAccess(_ group: Group) -> Access? {
        state.withLock { state in
            if group.isEmpty {
                if state.open === group { state.open = nil }
                return nil
            }
            group.cancellation = WaitCancellation()
            return Access(
                site: group.waiting[group.taken].site,
                cancellation: group.cancellation,
                lastTicket: state.lastTicket
            )
        }
    }

    /// Takes the next write out of the group, if it may share the transaction.
    ///
    /// - parameter isFirst: whether the transaction has no write yet.
    /// - returns: the write, and whether others wait behind it.
    func take(from group: Group, isFirst: Bool) -> (write: WaitingWrite, isLast: Bool)? {
        state.withLock { _ in
            guard !group.isEmpty, isFirst || !group.waiting[group.taken].isAlone else { return nil }
            let write = group.take()
            write.group = nil
            return (write, group.isEmpty)
        }
    }

    /// Takes all writes out of the group that came no later than a ticket.
    func takeAll(from group: Group, through lastTicket: UInt64 = .max) -> [WaitingWrite] {
        state.withLock { _ in
            var writes: [WaitingWrite] = []
            while !group.isEmpty, group.waiting[group.taken].ticket <= lastTicket { writes.append(group.take()) }
            for write in writes { write.group = nil }
            return writes
        }
    }

    /// - parameter writeCount: the number of writes that the transaction had.
    /// - returns: whether writes of the group wait, so that it must be scheduled again.
    func end(_ group: Group, writeCount: Int) -> Bool {
        state.withLock { state in
            state.wasShared = writeCount > 1
            if group.isEmpty, state.open === group { state.open = nil }
            return !group.isEmpty
        }
    }
}
