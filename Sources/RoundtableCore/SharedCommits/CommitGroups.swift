// Rule M1: An asynchronous write that finds no other one running or waiting, and comes after no shared transaction, is *alone*: it runs as
// a transaction of its own. The others form a *group*, which is scheduled on the writer's queue once, takes one turn, and runs the writes
// in the order in which they came, also those that come while it runs. It never waits for another one to come.

// Rule M7: An access that is scheduled without waiting for it (`asyncWrite` and its like) closes the group when it has its place on the
// writer's queue: writes that are requested after it run after it.

// Rule M8: The transaction ends with the write during which the slice has passed since it began, or the turn's slice is over while another
// participant waits. The rest of the group is scheduled again, behind what waits on the queue.

/// The asynchronous writes of a participant that wait for the writer connection, in groups that share transactions, as a pure value
/// (rules M).
///
/// A write that finds no other asynchronous write is alone: it is neither delayed nor put into a group. Writes that come before it has
/// ended form a group, and so do those that come after a shared transaction, because others are likely to follow. A group is scheduled on
/// the writer's queue, and takes what has come until then, and what comes while it runs.
///
/// It has no locks, and knows neither connections nor tasks. Each mutating method is an event. ``SharedCommits`` holds the value under a
/// lock; `SharedCommitModelTests` feeds it the events of several threads in every interleaving.
struct CommitGroups<Write> {
    /// Writes that may share transactions, because no other access was scheduled between them. A number is used once.
    typealias Group = Int

    fileprivate struct Waiting {
        let write: Write
        /// The order of arrival.
        let ticket: UInt64
    }

    private var hasLoneWrite = false
    /// Whether the last transaction of a group had more than one write. Its callers are likely to write again at the same time.
    private var wasShared = false
    /// The group that new writes join; nil when they form another one.
    private var open: Group?
    /// The writes that wait. A group in which none waits is left out.
    private var waiting: [Group: ArraySlice<Waiting>] = [:]
    private var lastGroup: Group = 0
    /// The number of writes that were requested.
    private(set) var lastTicket: UInt64 = 0
}

// MARK: - Requesting

extension CommitGroups {
    /// - returns: whether the write is alone. Call `endAlone` when it has ended.
    mutating func beginAlone() -> Bool {
        if hasLoneWrite || wasShared || open != nil { return false }
        hasLoneWrite = true
        lastTicket += 1
        return true
    }

    mutating func endAlone() { hasLoneWrite = false }

    /// - returns: the group that the write has founded, which must be scheduled; nil when the write has joined one.
    mutating func join(_ write: Write) -> Group? {
        lastTicket += 1
        let founded: Group? = open == nil ? lastGroup + 1 : nil
        lastGroup = founded ?? lastGroup
        let group = open ?? lastGroup
        open = group
        waiting[group, default: []].append(Waiting(write: write, ticket: lastTicket))
        return founded
    }

    /// Begins another group, because an access is about to be scheduled that must run before later writes.
    mutating func closeGroup() { open = nil }

    /// Takes a write out that was cancelled.
    ///
    /// - returns: whether it waited, and the group in which no write waits any more. A write that has been taken is not cancelled.
    mutating func cancel(_ isWrite: (Write) -> Bool) -> (wasWaiting: Bool, emptied: Group?) {
        for (group, writes) in waiting {
            guard let index = writes.firstIndex(where: { isWrite($0.write) }) else { continue }
            waiting[group]?.remove(at: index)
            return (true, forgetIfEmpty(group) ? group : nil)
        }
        return (false, nil)
    }

    /// Takes all writes out of a group that cannot be scheduled.
    mutating func refuse(_ group: Group) -> [Write] {
        if open == group { open = nil }
        return takeAll(from: group)
    }
}

// MARK: - Running

extension CommitGroups {
    /// Begins an access, which takes writes of the group until it ends.
    ///
    /// - returns: the first write, and the ticket of the last one that was requested; nil when no write of the group waits any more, because
    ///   all were cancelled. The access then has nothing to do, and must not call `end`.
    mutating func beginAccess(_ group: Group) -> (first: Write, lastTicket: UInt64)? {
        if let first = waiting[group]?.first { return (first.write, lastTicket) }
        if open == group { open = nil }
        return nil
    }

    /// Takes the next write out of a group, if it may share the transaction, to which it is added.
    ///
    /// - parameter isAlone: whether a write must not share a transaction, because its closure may end it.
    /// - returns: the write, and in what it runs.
    mutating func take(
        from group: Group,
        into transaction: inout SharedTransaction<Write>,
        isAlone: (Write) -> Bool
    ) -> (write: Write, extent: SharedTransaction<Write>.Extent)? {
        guard let next = waiting[group]?.first?.write else { return nil }
        let (isFirst, isAlone) = (transaction.writes.isEmpty, isAlone(next))
        if isAlone, !isFirst { return nil }
        waiting[group]?.removeFirst()
        let isLast = forgetIfEmpty(group)
        transaction.append(next)
        if isAlone { return (next, .transaction(isShareable: false)) }
        return (next, isFirst && isLast ? .transaction(isShareable: true) : .savepoint)
    }

    /// Ends an access.
    ///
    /// - parameter lastTicket: what `beginAccess` has returned.
    /// - returns: how writes have ended, and whether others of the group wait, so that it must be scheduled again.
    mutating func end(
        _ group: Group,
        _ transaction: SharedTransaction<Write>,
        _ end: SharedTransaction<Write>.End,
        lastTicket: UInt64
    ) -> (outcomes: [(write: Write, outcome: SharedTransaction<Write>.Outcome)], mustSchedule: Bool) {
        wasShared = transaction.writes.count > 1
        var outcomes = transaction.outcomes(end)
        switch end {
        case .final: break
        case .turnedBack: outcomes += takeAll(from: group).map { ($0, .turnedBack) }
        case .failed where transaction.writes.isEmpty:
            outcomes += takeAll(from: group, through: lastTicket).map { ($0, .failed) }
        case .failed: break
        }
        let isEmpty = waiting[group] == nil
        if isEmpty, open == group { open = nil }
        return (outcomes, !isEmpty)
    }

    /// Takes all writes out of a group that came no later than a ticket.
    private mutating func takeAll(from group: Group, through lastTicket: UInt64 = .max) -> [Write] {
        let taken = waiting[group]?.prefix { $0.ticket <= lastTicket } ?? []
        waiting[group]?.removeFirst(taken.count)
        forgetIfEmpty(group)
        return taken.map(\.write)
    }

    @discardableResult
    private mutating func forgetIfEmpty(_ group: Group) -> Bool {
        guard waiting[group]?.isEmpty == true else { return false }
        waiting[group] = nil
        return true
    }
}

extension CommitGroups: Sendable where Write: Sendable {}
extension CommitGroups.Waiting: Sendable where Write: Sendable {}
extension CommitGroups: Equatable where Write: Equatable {}
extension CommitGroups.Waiting: Equatable where Write: Equatable {}
extension CommitGroups: Hashable where Write: Hashable {}
extension CommitGroups.Waiting: Hashable where Write: Hashable {}
