import Foundation
import GRDB

/// A command that the owner has at hand.
struct PendingCommand {
    enum Source: Equatable {
        case file(CommandFileName)
        case deadLetter
    }

    let source: Source
    let command: CommandFile

    var file: CommandFileName? { if case .file(let name) = source { name } else { nil } }
}

/// What was decided about a command, within a transaction.
enum OutboxDecision {
    case applied
    /// It was decided before, perhaps by another owner.
    case known
    /// Its file has gone: it was decided by another owner, long ago perhaps.
    case gone
    case setAside(DeadLetter)
    /// It has failed, and is tried again then.
    case failed(OutboxCommandInfo, any Error, next: Date)
    /// Its time has not come: it has failed earlier, or nobody here knows it, and perhaps another owner does.
    case waits(until: Date)

    /// Whether its transaction has written something.
    var isNew: Bool {
        switch self {
        case .applied, .setAside, .failed: true
        case .known, .gone, .waits: false
        }
    }
}

/// What a decision is made within.
struct DecisionContext {
    /// Whether the transaction is being interrupted.
    let isDoomed: () -> Bool
    /// Moves when the transaction ends, whether another one has begun or not.
    let rollbacks: () -> Int
    /// When this owner has met a command first that it does not know.
    let firstMet: (_ id: UUID, _ now: Date) -> Date
}

/// A command's own error has taken the transaction with it: `ON CONFLICT ROLLBACK`, for example.
struct TransactionLost: Error {
    let id: UUID
    let error: any Error
}

extension OutboxHandlers {
    /// Decides about a command, inside the transaction that makes it so (rules X4, X7, X8).
    ///
    /// - Parameters:
    ///   - lost: the error of an earlier try, whose transaction was lost.
    /// - throws: errors that are the database's; what keeps it from recording what the command has done; ``TransactionLost``.
    func decide(
        _ pending: PendingCommand,
        lost: (any Error)?,
        _ context: DecisionContext,
        _ db: Database
    ) throws -> OutboxDecision {
        let command = pending.command
        switch pending.source {
        case .file:
            if try OutboxTables.outcome(of: command.id, db) != nil { return .known }
        case .deadLetter:
            guard let letter = try OutboxTables.deadLetter(command.id, db), letter.isForRetry(kinds) else {
                return .known
            }
        }
        let now = environment.now()
        let retry = try OutboxTables.retry(of: command.id, db)
        if let retry, !isDue(retry, now) { return .waits(until: retry.next) }
        // Whatever the table says.
        let attempts = min(max(retry?.attempts ?? 0, 0), .max - 1) + 1
        guard let handler = handler(of: command.kind) else {
            // One that has failed is known to somebody, who is to have the next try.
            let met = context.firstMet(command.id, now)
            let since = max(met, min(retry?.next ?? met, now))
            let end = since.addingTimeInterval(max(0, gracePeriod.seconds))
            if pending.source != .deadLetter, now < end { return .waits(until: end) }
            return try setAside(command, .unknown, "no handler knows \(command.kind)", attempts: 0, db)
        }
        if let error = try lost ?? apply(handler, command, attempts, context, db) {
            if let reason = reasonToSetAside(error, attempts) {
                return try setAside(command, reason, Self.text(error), attempts: attempts, db)
            }
            // Where it may be the database's after all, time may help.
            let delay = error.isOfDatabase ? retries.maximumDelay.seconds : retries.delay(after: attempts)
            let next = now.addingTimeInterval(delay)
            let retry = OutboxTables.Retry(attempts: attempts, next: next, error: Self.text(error))
            try OutboxTables.record(retry, of: command.id, db)
            return .failed(OutboxCommandInfo(command, attempt: attempts), error, next: next)
        }
        try OutboxTables.record(command.id, .applied, at: now, db)
        if pending.source == .deadLetter { try OutboxTables.removeDeadLetter(command.id, db) }
        return .applied
    }

    /// What is for people, where there is something.
    private static func text(_ error: any Error) -> String {
        if error is DatabaseError { return "\(error)" }
        return (error as? any LocalizedError)?.errorDescription ?? "\(error)"
    }

    /// nil: it is tried again.
    private func reasonToSetAside(_ error: any Error, _ attempts: Int) -> DeadLetter.Reason? {
        switch error {
        case is UndecodablePayload: .undecodable
        case is OutboxRefusal: .refused
        default: attempts >= retries.maximumAttempts ? .failed : nil
        }
    }

    /// Whether the next try may be made. A clock that was set back must not keep it waiting. Other owners may have other pauses.
    func isDue(_ retry: OutboxTables.Retry, _ now: Date) -> Bool {
        now >= retry.next || retry.next.timeIntervalSince(now) > max(retries.maximumDelay.seconds, 3600)
    }

    private func setAside(
        _ command: CommandFile,
        _ reason: DeadLetter.Reason,
        _ error: String,
        attempts: Int,
        _ db: Database
    ) throws -> OutboxDecision {
        let letter = DeadLetter(command, at: environment.now(), reason: reason, error: error, attempts: attempts)
        try OutboxTables.setAside(letter, db)
        return .setAside(letter)
    }

    /// - returns: the command's own error, when all that it did is rolled back.
    private func apply(
        _ handler: Handler,
        _ command: CommandFile,
        _ attempt: Int,
        _ context: DecisionContext,
        _ db: Database
    ) throws -> (any Error)? {
        let rollbacks = context.rollbacks()
        // Not one that the handler has begun anew: what others did was in the first.
        var isStillInTransaction: Bool { db.isInsideTransaction && context.rollbacks() == rollbacks }
        let info = OutboxCommandInfo(command, attempt: attempt)
        try db.cachedStatement(sql: "SAVEPOINT roundtable_outbox").execute()
        do {
            try handler(db, command, info)
            guard isStillInTransaction else { throw HandlerEndedTransaction() }
            try db.cachedStatement(sql: "RELEASE SAVEPOINT roundtable_outbox").execute()
            return nil
        } catch {
            if error.isOfDatabase || context.isDoomed() { throw error }
            guard isStillInTransaction else { throw TransactionLost(id: command.id, error: error) }
            do {
                try db.cachedStatement(sql: "ROLLBACK TRANSACTION TO SAVEPOINT roundtable_outbox").execute()
                try db.cachedStatement(sql: "RELEASE SAVEPOINT roundtable_outbox").execute()
            } catch let failure {
                if failure.isOfDatabase { throw failure }
                // The handler has ended our savepoint.
                throw TransactionLost(id: command.id, error: error)
            }
            return error
        }
    }
}

private struct HandlerEndedTransaction: Error, CustomStringConvertible {
    let description = "the handler has ended the transaction that it ran in, so that nothing of it is left"
}

extension Error {
    /// Whether it says something of the database, and nothing of the command: no try is counted (rule X7).
    var isOfDatabase: Bool {
        guard let error = self as? DatabaseError else { return false }
        switch error.resultCode {
        case .SQLITE_BUSY, .SQLITE_LOCKED, .SQLITE_INTERRUPT, .SQLITE_FULL, .SQLITE_IOERR, .SQLITE_NOMEM,
            .SQLITE_READONLY, .SQLITE_CANTOPEN, .SQLITE_CORRUPT, .SQLITE_NOTADB:
            return true
        default: return false
        }
    }
}
