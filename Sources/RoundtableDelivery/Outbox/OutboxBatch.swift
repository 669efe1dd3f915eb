import Foundation
import GRDB
import RoundtableCore
import RoundtableFiles
import RoundtableKernel

/// Commands that are decided in one transaction, in order (rules X4, X6). It says what to do with each, and when to commit; and if the
/// transaction fails, what is known of the cause. It knows neither clocks nor files nor databases.
struct OutboxBatch {
    enum Step {
        /// Check whether the file still exists; then call `checked`. The command's id may be forgotten by now, but only after the file was
        /// removed (rule X11).
        case check(CommandFileName)
        /// Decide about the command; then call `decided`.
        case decide(PendingCommand)
        /// Commit the transaction.
        case commit
    }

    /// Why a batch was not committed.
    enum Failure: Error {
        /// A command has ended the transaction with an error that may be the database's.
        case command(PendingCommand, reason: any Error, isInterrupted: Bool)
        /// A command's own error has ended the transaction.
        case lost(UUID, reason: any Error)
        /// The commit failed, by a deferred constraint or an observer's veto. It is not known which command is the cause.
        case commit([UUID], reason: any Error)
        /// The error is the database's, or the file system's.
        case database(any Error)
    }

    /// How long a batch keeps the turn, if one command does not take longer.
    static let time: Nanoseconds = 10_000_000

    private let commands: [PendingCommand]
    private var end: Nanoseconds = 0
    /// The decisions about the first commands.
    private(set) var decisions: [OutboxDecision] = []
    /// The command that is being decided.
    private(set) var current: PendingCommand?
    /// The senders whose later commands wait.
    private var blocked: Set<String> = []
    private var wasChecked = false
    private var isComplete = false

    init(_ commands: [PendingCommand]) { self.commands = commands }

    /// The transaction has begun.
    mutating func begin(at now: Nanoseconds) { end = now.addingSaturating(Self.time) }

    mutating func next() -> Step {
        while !isComplete, decisions.count < commands.count {
            let pending = commands[decisions.count]
            if let file = pending.file {
                if blocked.contains(file.encodedSender) {
                    decisions.append(.waits(until: .distantFuture))
                    continue
                }
                if !wasChecked { return .check(file) }
            }
            current = pending
            return .decide(pending)
        }
        isComplete = true
        return .commit
    }

    mutating func checked(exists: Bool) {
        wasChecked = exists
        if !exists { decisions.append(.gone) }
    }

    /// - parameter now: when the decision was made. The batch is complete when its time is over.
    mutating func decided(_ decision: OutboxDecision, at now: Nanoseconds) {
        decisions.append(decision)
        if decision.blocksSender, let file = current?.file { blocked.insert(file.encodedSender) }
        (current, wasChecked) = (nil, false)
        if now >= end { isComplete = true }
    }

    /// What is known of the cause, after the transaction has failed.
    ///
    /// - parameter isAborted: whether the gate was aborting accesses when the command failed.
    func failure(_ error: any Error, isAborted: Bool) -> Failure {
        if let error = error as? TransactionLost { return .lost(error.id, reason: error.error) }
        let isInterrupted = (error as? DatabaseError)?.isSuspension == true
        if let current { return .command(current, reason: error, isInterrupted: isInterrupted || isAborted) }
        guard isComplete, !error.isOfDatabase, !isInterrupted else { return .database(error) }
        return .commit(commands.prefix(decisions.count).map(\.command.id), reason: error)
    }
}
