import Foundation
import RoundtableCore
import RoundtableFiles
import RoundtableKernel

/// Determines which command is the cause when a batch cannot be committed, so that it delays no other (rule X7). It knows neither clocks
/// nor files nor databases.
struct OutboxSuspects {
    private struct Suspect {
        /// How often the command has ended a transaction with an error that may be the database's.
        var failures = 0
        /// The number of committed transactions when the command did so last.
        var commits = Int.max
    }

    /// The number of failures after which a try is counted although no other command was committed. Without other commands, nothing shows
    /// whether the database works.
    static let chances = 8

    /// Commands that share no transaction with others: those that have ended one, and those of a batch that could not be committed.
    private var suspects: [UUID: Suspect] = [:]
    /// The errors of commands whose transaction was lost. The next transaction records them.
    private var lost: [UUID: any Error] = [:]
    /// The number of transactions that have decided something.
    private var commits = 0

    func contains(_ id: UUID) -> Bool { suspects[id] != nil }

    /// The error that the next transaction records as that of a try; nil if the command is to be tried.
    func lostError(of id: UUID) -> (any Error)? { lost[id] }

    /// The first commands, as many as may share a transaction.
    func batch(of ready: [PendingCommand]) -> [PendingCommand] {
        let sound = ready.prefix { !contains($0.command.id) }
        return Array(sound.isEmpty ? ready.prefix(1) : sound)
    }

    // MARK: Reports

    /// - parameter hasDecided: whether the transaction has written a decision.
    mutating func committed(hasDecided: Bool) { if hasDecided { commits += 1 } }

    /// The command was decided, or its failed try was recorded.
    mutating func recorded(_ id: UUID) { lost[id] = nil }

    /// The command was decided for good.
    mutating func remove(_ id: UUID) { suspects[id] = nil }

    mutating func removeAll() { suspects = [:] }

    /// What was lost in this run is tried again in the next one.
    mutating func endRun() { lost = [:] }

    /// - returns: the error that ends the run, if the database is the cause, as far as is known; nil if the batch is to be retried.
    mutating func failed(_ failure: OutboxBatch.Failure) -> (any Error)? {
        switch failure {
        case .database(let reason): return reason
        case .lost(let id, let reason): lost[id] = reason
        case .commit(let ids, let reason):
            guard ids.count == 1 else {
                for id in ids where suspects[id] == nil { suspects[id] = Suspect() }
                return nil
            }
            // If the failure cannot be recorded either, this command is not the cause.
            if lost[ids[0]] != nil { return reason }
            lost[ids[0]] = reason
        case .command(let pending, let reason, let isInterrupted):
            let id = pending.command.id
            var suspect = suspects[id] ?? Suspect()
            defer { suspects[id] = suspect }
            if isInterrupted { return reason }
            // The database works for other commands, or the chances are used up. The next transaction shows whether the try can be
            // recorded.
            let isOwnFault = commits > suspect.commits || suspect.failures + 1 >= Self.chances
            suspect.commits = commits
            suspect.failures += 1
            guard isOwnFault, lost[id] == nil else { return reason }
            lost[id] = reason
        }
        return nil
    }
}
