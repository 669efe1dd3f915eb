import Dispatch
import GRDB
import RoundtableKernel

/// Asynchronous writes that share transactions (rules M).
extension SharedDatabase {
    /// Runs a write transaction, or a part of one together with other asynchronous writes that wait.
    func onWriterSharing<T: Sendable>(
        _ write: Write,
        _ updates: @Sendable (Database) throws -> T
    ) async throws -> T {
        try checkProcess()
        while true {
            if sharedCommits.beginAlone() {
                defer { sharedCommits.endAlone() }
                let (outcome, result) = try await attempt(write) { db in try self.transaction(db, updates) }
                if try outcome.isDone { return result! }
            } else if let result = try await share(write, updates) {
                return result
            }
            guard write.waits else { throw DatabaseError.suspended(path) }
            try await gate.waitUntilOpen()
        }
    }

    /// - returns: nil when the gate turned the write back.
    private func share<T: Sendable>(_ write: Write, _ updates: @Sendable (Database) throws -> T) async throws -> T? {
        var isAgain = false
        while true {
            try Task.checkCancellation()
            let waiting = WaitingWrite(at: write.site, isAlone: isAgain, join: join)
            let result = await withTaskCancellationHandler {
                await WaitingWriteActor(waiting).run(updates)
            } onCancel: {
                if sharedCommits.cancel(waiting) { endSoon([waiting], .failed(CancellationError())) }
            }
            switch await waiting.outcome() {
            case .final:
                if let error = waiting.error { throw error }
                return result
            case .again: isAgain = true
            case .turnedBack: return nil
            case .failed(let error): throw error
            }
        }
    }

    @Sendable
    private func join(_ write: WaitingWrite) {
        switch sharedCommits.join(write) {
        case .joined: break
        case .founded(let group): schedule(group, at: write.site)
        case .cancelled: endSoon([write], .failed(CancellationError()))
        }
    }

    /// Ends writes on another thread, because the present one may be about to suspend the task of one of them.
    private func endSoon(_ writes: [WaitingWrite], _ outcome: WaitingWrite.Outcome) {
        if writes.isEmpty { return }
        DispatchQueue.global().async { writes.forEach { $0.end(outcome) } }
    }

    // MARK: Running a group

    private func schedule(_ group: SharedCommits.Group, at site: CallSite?) {
        switch admit(Write(site: site, waits: true)) {
        case .refused(let attempt):
            let outcome: WaitingWrite.Outcome =
                if case .failed(let error) = attempt { .failed(error) } else { .turnedBack }
            sharedCommits.close(group)
            endSoon(sharedCommits.takeAll(from: group), outcome)
        case .admitted(let visit, let queue):
            queue.asyncWriteWithoutTransaction { db in self.run(group, visit, db) }
        }
    }

    /// The writes of a transaction.
    private struct Members {
        var writes: [WaitingWrite] = []
        /// The write whose closure was interrupted.
        var interrupted: WaitingWrite?
    }

    /// Runs one transaction, and schedules the rest of the group.
    private func run(_ group: SharedCommits.Group, _ visit: UInt64, _ db: Database) {
        guard let access = sharedCommits.beginAccess(group) else { return gate.leave(visit) }
        var members = Members()
        let result = Result {
            let write = Write(site: access.site, waits: true)
            return try writing(db, write, visit, cancellation: access.cancellation) {
                try transaction(db, group, access, visit, &members)
            }
        }
        let ended = end(members, result, group, access)
        // The next transaction is scheduled before this one's callers continue.
        if sharedCommits.end(group, writeCount: members.writes.count) { schedule(group, at: access.site) }
        for (write, outcome) in ended { write.end(outcome) }
    }

    /// - returns: the writes that have ended, and how.
    private func end(
        _ members: Members,
        _ result: Result<Attempt, any Error>,
        _ group: SharedCommits.Group,
        _ access: SharedCommits.Access
    ) -> [(WaitingWrite, WaitingWrite.Outcome)] {
        let writes = members.writes
        switch result {
        case .success(.done):
            return writes.map { ($0, .final) }
        case .success(.turnedBack), .success(.failed):
            return (writes + sharedCommits.takeAll(from: group)).map { ($0, .turnedBack) }
        case .failure(let error):
            if writer.hasCommitted || error is NothingDone { return writes.map { ($0, .final) } }
            switch writes.count {
            case 0:
                let waiting = sharedCommits.takeAll(from: group, through: access.lastTicket)
                return waiting.map { ($0, .failed(error)) }
            case 1: return [(writes[0], .failed(error))]
            default: return writes.map { ($0, $0 === members.interrupted ? .failed(error) : .again) }
            }
        }
    }

    /// The closures of all writes have failed, so there is nothing to commit.
    private struct NothingDone: Error {}

    private func transaction(
        _ db: Database,
        _ group: SharedCommits.Group,
        _ access: SharedCommits.Access,
        _ visit: UInt64,
        _ members: inout Members
    ) throws {
        // All writes of the group were cancelled during the wait for the turn, which may have been given up.
        if access.cancellation.isCancelled { throw CancellationError() }
        try writer.transaction(db) {
            try writer.forgetSchemaIfChanged(db)
            try writer.admitWrite()
            let began = MonotonicClock.now
            var shown = access.site
            var hasDone = false
            while let (next, isLast) = sharedCommits.take(from: group, isFirst: members.writes.isEmpty) {
                let isFirst = members.writes.isEmpty
                members.writes.append(next)
                if !CallSite.areSame(shown, next.site) {
                    shown = next.site
                    seat.show(shown)
                    gate.show(shown, of: visit)
                }
                writer.prepareCompanions(db)
                if isFirst, isLast || next.isAlone {
                    // Nobody else's part is in the transaction, so it is undone as a whole.
                    try next.run(db)
                    hasDone = true
                    // A closure that has ended the transaction ends as when it is alone, also if it has begun another one.
                    if next.isAlone || !writer.isTransactionOpen(db) || db.hasUnresolvedForeignKeys { break }
                } else {
                    hasDone = try part(db, next, &members) || hasDone
                }
                let now = MonotonicClock.now
                if now &- began >= options.turnSettings.slice || seat.isTurnDue(at: now) { break }
            }
            guard hasDone else { throw NothingDone() }
        }
    }

    /// Runs a write in a savepoint.
    ///
    /// - returns: whether its part is in the transaction.
    /// - throws: why the transaction cannot be committed.
    private func part(_ db: Database, _ write: WaitingWrite, _ members: inout Members) throws -> Bool {
        switch try writer.savepoint.run(db, { try write.run(db) }) {
        case .done: return true
        case .undone(let error) where !gate.isAborted:
            write.replaceError((error as? DatabaseError).map(writer.named) ?? error)
            return false
        case .undone(let error as (any Error)?), .lost(let error):
            if (error as? DatabaseError)?.resultCode == .SQLITE_INTERRUPT { members.interrupted = write }
            throw error ?? WriteTransaction.aborted
        }
    }
}
