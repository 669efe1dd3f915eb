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
            // A group that has entered the gate admits no more writes.
            try gate.checkNotShuttingDown()
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
            let queue = WaitingWrite.Queue(priorities: waitingPriorities, seat: seat, join: join)
            let waiting = WaitingWrite(
                at: write.site,
                priority: priority(of: write) ?? options.priority,
                isAlone: isAgain,
                in: queue
            )
            let result = await withTaskCancellationHandler {
                await WaitingWriteActor(waiting).run(updates)
            } onCancel: {
                if sharedCommits.cancel(waiting) { endSoon([waiting], .failed, CancellationError()) }
            }
            switch await waiting.outcome() {
            case .final, .failed:
                if let error = waiting.error { throw error }
                return result
            case .again: isAgain = true
            case .turnedBack: return nil
            }
        }
    }

    @Sendable
    private func join(_ write: WaitingWrite) {
        switch sharedCommits.join(write) {
        case .joined: break
        case .founded(let group): schedule(group, at: write.site)
        case .cancelled: endSoon([write], .failed, CancellationError())
        }
    }

    /// Ends writes on another thread, because the present one may be about to suspend the task of one of them.
    private func endSoon(_ writes: [WaitingWrite], _ outcome: WaitingWrite.Outcome, _ error: (any Error)?) {
        if writes.isEmpty { return }
        DispatchQueue.global().async { writes.forEach { $0.end(outcome, error) } }
    }

    // MARK: Running a group

    private func schedule(_ group: SharedCommits.Group, at site: CallSite?) {
        switch admit(Write(site: site, waits: true, .ofMembers)) {
        case .refused(let attempt):
            let writes = sharedCommits.refuse(group)
            if case .failed(let error) = attempt {
                endSoon(writes, .failed, error)
            } else {
                endSoon(writes, .turnedBack, nil)
            }
        case .admitted(let visit, let queue):
            queue.asyncWriteWithoutTransaction { db in self.run(group, visit, db) }
        }
    }

    /// Runs one transaction, and schedules the rest of the group.
    private func run(_ group: SharedCommits.Group, _ visit: UInt64, _ db: Database) {
        guard let access = sharedCommits.beginAccess(group) else { return gate.leave(visit) }
        var shared = SharedCommits.Transaction()
        let result = Result {
            let write = Write(site: access.site, waits: true, .ofMembers)
            return try writing(db, write, visit, cancellation: access.cancellation) {
                try transaction(db, group, access, visit, &shared)
            }
        }
        let (ended, error) = end(result)
        let (outcomes, mustSchedule) = sharedCommits.end(group, access, shared, ended)
        // The next transaction is scheduled before this one's callers continue.
        if mustSchedule { schedule(group, at: access.site) }
        for (write, outcome) in outcomes { write.end(outcome, error) }
    }

    /// - returns: how the transaction has ended, and the error of the writes that have failed with it.
    private func end(
        _ result: Result<Attempt, any Error>
    ) -> (end: SharedCommits.Transaction.End, error: (any Error)?) {
        switch result {
        case .success(.done): (.final, nil)
        case .success(.turnedBack), .success(.failed): (.turnedBack, nil)
        case .failure(let error): (writer.hasCommitted || error is NothingDone ? .final : .failed, error)
        }
    }

    /// The closures of all writes have failed, so there is nothing to commit.
    private struct NothingDone: Error {}

    private func transaction(
        _ db: Database,
        _ group: SharedCommits.Group,
        _ access: SharedCommits.Access,
        _ visit: UInt64,
        _ shared: inout SharedCommits.Transaction
    ) throws {
        // All writes of the group were cancelled during the wait for the turn, which may have been given up.
        if access.cancellation.isCancelled { throw CancellationError() }
        try writer.transaction(db) {
            try writer.forgetSchemaIfChanged(db)
            try writer.admitWrite()
            let began = MonotonicClock.now
            var shown = access.site
            writes: while let (next, extent) = sharedCommits.take(from: group, into: &shared) {
                if !CallSite.areSame(shown, next.site) {
                    shown = next.site
                    seat.show(shown)
                    gate.show(shown, of: visit)
                }
                writer.prepareCompanions(db)
                switch extent {
                case .transaction(let isShareable):
                    try next.run(db)
                    shared.hasPart = true
                    // A closure that has ended the transaction ends as when it is alone, also if it has begun another one.
                    if !isShareable || !writer.isTransactionOpen(db) || db.hasUnresolvedForeignKeys { break writes }
                case .savepoint:
                    if try part(db, next, &shared) { shared.hasPart = true }
                }
                let now = MonotonicClock.now
                if now &- began >= options.turnSettings.slice || seat.isTurnDue(at: now) { break }
            }
            guard shared.hasPart else { throw NothingDone() }
        }
    }

    /// Runs a write in a savepoint.
    ///
    /// - returns: whether its part is in the transaction.
    /// - throws: why the transaction cannot be committed.
    private func part(
        _ db: Database,
        _ write: WaitingWrite,
        _ shared: inout SharedCommits.Transaction
    ) throws -> Bool {
        switch try writer.savepoint.run(db, { try write.run(db) }) {
        case .done: return true
        case .undone(let error) where !gate.isAborted:
            write.replaceError((error as? DatabaseError).map(writer.named) ?? error)
            return false
        case .undone(let error as (any Error)?), .lost(let error):
            if (error as? DatabaseError)?.resultCode == .SQLITE_INTERRUPT { shared.lastWasInterrupted() }
            throw error ?? WriteTransaction.aborted
        }
    }
}
