import Foundation
import GRDB
import RoundtableCore
import RoundtableFiles
import RoundtableGate
import RoundtableKernel

extension OutboxRounds {
    /// Decides as many of these commands as fit into one transaction, in order.
    ///
    /// - returns: the decisions about the first ones.
    func decide(
        _ commands: [PendingCommand],
        _ database: SharedDatabase
    ) throws(OutboxBatch.Failure) -> [OutboxDecision] {
        var batch = OutboxBatch(commands)
        var wasAborted = false
        let context = DecisionContext(
            isAborted: { database.gate.isAborted },
            savepoint: database.writer.savepoint,
            firstMet: { self.schedule.firstMet($0, at: $1) }
        )
        do {
            try database.write(whileSuspended: .fail) { db in
                batch.begin(at: MonotonicClock.now)
                identity = try database.identityOfFile()
                try OutboxTables.createIfAbsent(db)
                try ownership.record(db)
                while true {
                    switch batch.next() {
                    case .check(let file):
                        batch.checked(exists: try files.exists(file))
                    case .decide(let pending):
                        do {
                            let lost = schedule.suspects.lostError(of: pending.command.id)
                            batch.decided(try handlers.decide(pending, lost: lost, context, db), at: MonotonicClock.now)
                        } catch {
                            wasAborted = context.isAborted()
                            throw error
                        }
                    case .commit:
                        return
                    }
                }
            }
        } catch {
            throw batch.failure(explained(error, batch.current?.command), isAborted: wasAborted)
        }
        ownership.hasCommitted()
        return batch.decisions
    }

    /// Returns the error, and explains that of a full disk, because the owner is the one who can make room.
    func explained(_ error: any Error, _ command: CommandFile? = nil) -> any Error {
        let what = command.map { "\($0.kind) from '\($0.sender)' (\($0.id)) is not applied. " } ?? ""
        let consequence = "\(what)What waits in \(folder.path) is kept, and applied as soon as there is space."
        return error.explainingNoRoom(in: databasePath, consequence)
    }
}
