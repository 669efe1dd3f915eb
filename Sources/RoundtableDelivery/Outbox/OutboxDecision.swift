import Foundation
import GRDB
import RoundtableCore
import RoundtableFiles

/// A command that was read and is to be decided.
struct PendingCommand {
    /// The file that the command waits in; nil for a dead letter.
    let file: CommandFileName?
    let command: CommandFile
}

/// A decision about a command, made within a transaction.
enum OutboxDecision {
    case applied
    /// The command was decided before, possibly by another owner.
    case known
    /// The command's file is gone, because another owner decided the command, possibly long ago.
    case gone
    case setAside(DeadLetter)
    /// The command has failed, and is retried at `next`.
    case failed(OutboxCommandInfo, any Error, next: Date)
    /// The command is not due: its next try comes later, or this owner does not know it and another owner may.
    case waits(until: Date)

    /// Whether the decision has written to the database.
    var isNew: Bool {
        switch self {
        case .applied, .setAside, .failed: true
        case .known, .gone, .waits: false
        }
    }

    /// Whether the command is not decided yet, so that the later ones of its sender wait.
    var blocksSender: Bool {
        switch self {
        case .failed, .waits: true
        case .applied, .known, .gone, .setAside: false
        }
    }
}

/// What a decision needs to know of its transaction and of the owner.
struct DecisionContext {
    /// Whether the transaction is being interrupted.
    let isAborted: () -> Bool
    /// Undoes what a command has done if it fails.
    let savepoint: Savepoint
    /// When this owner first met a command that it does not know.
    let firstMet: (_ id: UUID, _ now: Date) -> Date
}

/// The error of a command that has ended the transaction itself, for example by `ON CONFLICT ROLLBACK`.
struct TransactionLost: Error {
    let id: UUID
    let error: any Error
}

extension OutboxHandlers {
    // Rule X4: An *owner* is a read-write participant that applies commands; there may be several. A command is applied in a write
    // transaction that also records its id in `roundtable_outbox_applied`; one whose id is recorded is not applied again. So the database
    // alone decides.

    /// Decides about a command, inside the transaction that records the decision (rules X4, X7, X8).
    ///
    /// - Parameters:
    ///   - lost: the error of an earlier try whose transaction was lost.
    /// - throws: errors of the database; errors of recording what the command has done; ``TransactionLost``.
    func decide(
        _ pending: PendingCommand,
        lost: (any Error)?,
        _ context: DecisionContext,
        _ db: Database
    ) throws -> OutboxDecision {
        let command = pending.command
        let isDeadLetter = pending.file == nil
        if isDeadLetter {
            guard let letter = try OutboxTables.deadLetter(command.id, db), letter.isForRetry(kinds) else {
                return .known
            }
        } else {
            if try OutboxTables.outcome(of: command.id, db) != nil { return .known }
        }
        let now = environment.now()
        let retry = try OutboxTables.retry(of: command.id, db)
        if let retry, !retryPolicy.isDue(retry.next, at: now) { return .waits(until: retry.next) }
        let attempt = OutboxRetryPolicy.attempt(after: retry?.attempts)
        guard let handler = handler(of: command.kind) else {
            let met = context.firstMet(command.id, now)
            let end = retryPolicy.endOfGrace(firstMet: met, next: retry?.next, at: now)
            if !isDeadLetter, now < end { return .waits(until: end) }
            return try setAside(command, .unknown, "no handler knows \(command.kind)", attempts: 0, db)
        }
        if let error = try lost ?? apply(handler, command, attempt, context, db) {
            switch retryPolicy.verdict(on: error, attempt: attempt, at: now) {
            case .setAside(let reason):
                return try setAside(command, reason, Self.text(error), attempts: attempt, db)
            case .retry(let next):
                let retry = OutboxTables.Retry(attempts: attempt, next: next, error: Self.text(error))
                try OutboxTables.record(retry, of: command.id, db)
                return .failed(OutboxCommandInfo(command, attempt: attempt), error, next: next)
            }
        }
        try OutboxTables.record(command.id, .applied, at: now, db)
        if isDeadLetter { try OutboxTables.removeDeadLetter(command.id, db) }
        return .applied
    }

    /// The text of an error for those who develop the program: its description, if its type has one.
    private static func text(_ error: any Error) -> String {
        // As an error, the compiler takes each for convertible.
        let value: Any = error
        if let value = value as? any CustomStringConvertible { return value.description }
        return (error as? any LocalizedError)?.errorDescription ?? "\(error)"
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

    /// - returns: the command's own error, after all that the command did was rolled back; nil if there was none.
    private func apply(
        _ handler: Handler,
        _ command: CommandFile,
        _ attempt: Int,
        _ context: DecisionContext,
        _ db: Database
    ) throws -> (any Error)? {
        let info = OutboxCommandInfo(command, attempt: attempt)
        switch try context.savepoint.run(db, { try handler(db, command, info) }) {
        case .done: return nil
        case .undone(let error):
            if error.isOfDatabase || context.isAborted() { throw error }
            return error
        case .lost(let reason):
            let error = reason ?? HandlerEndedTransaction()
            if error.isOfDatabase || context.isAborted() { throw error }
            throw TransactionLost(id: command.id, error: error)
        }
    }
}

private struct HandlerEndedTransaction: Error, CustomStringConvertible {
    let description = "the handler has ended the transaction that it ran in, so that none of its changes is kept"
}

extension Error {
    /// Whether the error concerns the database and not the command, so that no try is counted (rule X7).
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
