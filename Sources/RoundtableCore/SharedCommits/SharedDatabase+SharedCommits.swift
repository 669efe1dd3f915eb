import Dispatch
import GRDB
import RoundtableGate
import RoundtableKernel

/// Asynchronous writes that share transactions (rules M).
extension SharedDatabase {
    /// Runs a write transaction, or a part of one together with other asynchronous writes that wait.
    func onWriterSharing(
        _ write: Write,
        at site: CallSite,
        _ updates: @Sendable (Database) throws -> Void
    ) async throws {
        try await untilRun(write) {
            // A group that has entered the gate admits no more writes.
            try gate.checkNotShuttingDown()
            guard sharedCommits.beginAlone() else { return try await share(write, at: site, updates) }
            defer { sharedCommits.endAlone() }
            return try await attempt(write) { db in
                try self.transaction(db) { try self.noticingEnd(of: db, by: site) { try updates(db) } }
            }
        }
    }

    /// - returns: nil when the gate turned the write back.
    private func share(
        _ write: Write,
        at site: CallSite,
        _ updates: @Sendable (Database) throws -> Void
    ) async throws -> Void? {
        try Task.checkCancellation()
        let queue = WaitingWrite.Queue(priorities: waitingPriorities, seat: seat, join: join)
        let waiting = WaitingWrite(at: site, priority: write.priority ?? options.priority, in: queue)
        await withTaskCancellationHandler {
            await WaitingWriteActor(waiting).run(updates)
        } onCancel: {
            if sharedCommits.cancel(waiting) { endSoon([waiting], .failed, CancellationError()) }
        }
        if await waiting.outcome() == .turnedBack { return nil }
        if let error = waiting.error { throw error }
        return ()
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
        do {
            let (visit, queue) = try admit(Write(site: site, waits: true, priority: nil))
            queue.asyncWriteWithoutTransaction { db in self.run(group, visit, db) }
        } catch {
            let writes = sharedCommits.refuse(group)
            switch error {
            case .failed(let error): endSoon(writes, .failed, error)
            case .turnedBack: endSoon(writes, .turnedBack, nil)
            }
        }
    }

    /// Runs one transaction, and schedules the rest of the group.
    private func run(_ group: SharedCommits.Group, _ visit: UInt64, _ db: Database) {
        guard let access = sharedCommits.beginAccess(group) else { return gate.leave(visit) }
        var shared = SharedCommits.Transaction()
        let result = Result {
            let write = Write(site: access.site, waits: true, priority: nil)
            return try writing(db, write, visit, cancellation: access.cancellation) {
                try transaction(db, group, access, visit, &shared)
            }
        }
        let (ended, error) = end(result)
        let (outcomes, mustSchedule) = sharedCommits.end(group, access, shared, ended)
        // The next transaction is scheduled before this one's callers continue.
        if mustSchedule { schedule(group, at: access.site) }
        let lossError: (any Error)? =
            if let error, let culprit = shared.endedBy { loss(by: culprit.site, error) } else { error }
        for (write, outcome) in outcomes { write.end(outcome, outcome == .lost ? lossError : error) }
    }

    /// - returns: how the transaction has ended, and the error of the writes that have failed with it.
    private func end(
        _ result: Result<Refusal?, any Error>
    ) -> (end: SharedCommits.Transaction.End, error: (any Error)?) {
        switch result {
        case .success(nil): (.final, nil)
        case .success(.turnedBack): (.turnedBack, nil)
        case .success(.failed(let error)): (.failed, error)
        // What was committed to a file that is lost is not acknowledged (rule W12b).
        case .failure(let error):
            (writer.hasCommitted && files.loss == nil || error is NothingDone ? .final : .failed, error)
        }
    }

    /// The error of a write whose transaction the closure of another one has ended.
    private func loss(by site: CallSite, _ error: any Error) -> any Error {
        let error = error as? DatabaseError
        // Such a failure is everyone's. Any other, such as a constraint, is about the values of the other write alone.
        let code = error.flatMap { $0.isOutsideOfClosure ? $0.extendedResultCode : nil }
        return DatabaseError(
            resultCode: code ?? .SQLITE_ABORT_ROLLBACK,
            message: """
                \(path): rolled back, because the write at \(site.file):\(site.line), which shared the transaction, has ended it\
                \(error.map { " (\($0.message ?? "\($0.extendedResultCode)"))" } ?? ""). Nothing of this write is kept, and its closure did \
                not run again: try again, or write with sharesCommit: false
                """
        )
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
            let began = MonotonicClock.now
            var shown = access.site
            // A write that has not begun waits for the gate; the others end with the transaction that is aborted.
            writes: while !shared.hasPart || !gate.isAborted,
                let (next, extent) = sharedCommits.take(from: group, into: &shared)
            {
                if shown != next.site {
                    shown = next.site
                    seat.show(shown)
                    gate.show(shown, of: visit)
                }
                writer.prepareCompanions(db)
                switch extent {
                case .transaction(let isShareable):
                    try noticingEnd(of: db, by: next.site) { try next.run(db) }
                    shared.lastIsPart()
                    // A closure that has ended the transaction ends as when it is alone, also if it has begun another one.
                    if !isShareable || !writer.isTransactionOpen(db) || db.hasUnresolvedForeignKeys { break writes }
                case .savepoint:
                    if try part(db, next, &shared) { shared.lastIsPart() }
                }
                let now = MonotonicClock.now
                if now &- began >= options.turnSettings.slice || seat.isTurnDue(at: now) { break }
            }
            guard shared.hasPart else { throw NothingDone() }
        }
    }

    // Rule M4: A part that leaves foreign keys without their rows (`SQLITE_DBSTATUS_DEFERRED_FKS` after its last statement) is undone. Its
    // write fails with the error of the commit that it would have needed.

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
        // The gate ends the transaction of all, whatever the error of this part is.
        case .undone,
            .lost(_) where gate.isAborted:
            throw WriteTransaction.aborted
        case .lost(let error):
            shared.lastHasEnded()
            note(end: error, by: write.site)
            throw error ?? WriteTransaction.aborted
        }
    }

    // MARK: Closures that end their transaction

    /// Runs a closure that is alone in its transaction, and notes if it ends that.
    private func noticingEnd(of db: Database, by site: CallSite, _ body: () throws -> Void) throws {
        do {
            try body()
            if !writer.isTransactionOpen(db) { note(end: nil, by: site) }
        } catch {
            if !writer.isTransactionOpen(db) { note(end: error, by: site) }
            throw error
        }
    }

    private func note(end error: (any Error)?, by site: CallSite) {
        if (error as? DatabaseError)?.isOutsideOfClosure == true { return }
        sharedCommits.closureEndsTransactions(at: site)
    }
}

extension DatabaseError {
    /// Whether SQLite may [roll a transaction back](https://www.sqlite.org/lang_transaction.html#response_to_errors_within_a_transaction)
    /// with this error whatever its statements are.
    fileprivate var isOutsideOfClosure: Bool {
        switch resultCode {
        case .SQLITE_FULL, .SQLITE_IOERR, .SQLITE_NOMEM, .SQLITE_INTERRUPT, .SQLITE_BUSY: true
        default: false
        }
    }
}
