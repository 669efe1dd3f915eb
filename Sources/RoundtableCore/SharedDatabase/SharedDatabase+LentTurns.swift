import GRDB
import RoundtableGate
import RoundtableKernel

// Rule W14: A database that takes the turns of another one (`turnsOf`) writes inside of that one's gate, on the queue of its writer connection,
// and with its turn, which come before its own. So a participant never waits for the other database's turn while it holds its own. It takes
// no lock of the other database's file: the turn is a courtesy, and a writer without it waits for SQLite's lock. What it has committed is an
// aside commit of the other database if that has databases attached (R2), announced before the turn is released. The gates are requested to
// close and to open together.

extension SharedDatabase.Options {
    /// Another database of this process, with whose turns this one is written. nil, the default: this one has turns of its own.
    ///
    /// It is for two files that are written in one transaction by some connections (`ATTACH`), and separately by others. With the same
    /// turns, neither waits for the other at SQLite's locks. Both are suspended together. See <doc:SecondDatabase>.
    public var turnsOf: SharedDatabase? {
        get { features[Lender.self]?.database }
        set { features[Lender.self] = newValue.map { Lender(database: $0) } }
    }
}

/// It is among the values of features, because options are copied often, and few have one.
private struct Lender: Sendable {
    let database: SharedDatabase
}

extension SharedDatabase {
    /// Why a write of this database cannot take the turn of the other one here; nil when it can.
    var turnRefusal: Refusal? {
        guard let lender, Access.isWriting(lender) else { return nil }
        return .failed(DatabaseError.turnIsTaken(path, lender.path))
    }

    /// Waits until the gate is open, and that of the database whose turns this one takes.
    func waitUntilOpen() {
        gate.waitUntilOpen()
        lender?.waitUntilOpen()
    }

    func waitUntilOpen() async throws {
        try await gate.waitUntilOpen()
        try await lender?.waitUntilOpen()
    }

    /// Runs a write of another database with the turn of this one. Call it on the queue of the other one's writer.
    ///
    /// - Parameters:
    ///   - priorities: those of the writes of the other database that wait.
    ///   - body: receives the writer connection of this database, outside of a transaction.
    /// - returns: why `body` has not run; nil when it has.
    func lendTurn(
        for write: Write,
        _ priorities: WaitingPriorities,
        _ cancellation: WaitCancellation?,
        _ body: (Database) throws -> Void
    ) rethrows -> Refusal? {
        let (visit, queue): (UInt64, DatabaseQueue)
        do { (visit, queue) = try admit(write) } catch { return error }
        return try queue.inDatabase { db in
            var waits = true
            func hasWaited() {
                if waits { endWaiting(write) }
                waits = false
            }
            defer { hasWaited() }
            guard let started = gate.start(visit) else {
                gate.leave(visit)
                return .turnedBack
            }
            writer.beginAccess()
            defer { writer.leaveGate(visit, db, nil) }
            let hasRun = try writer.withTurn(
                db,
                at: write.site,
                since: started,
                until: write.deadline,
                cancellation: cancellation,
                priority: { [waitingPriorities, priorities].compactMap { $0.mostUrgent?.rawValue }.min() }
            ) {
                hasWaited()
                try body(db)
            }
            return hasRun ? nil : .turnedBack
        }
    }

    /// Notifies the observers of this database of a commit to a database that may be attached to it. Call it on the writer's queue, with the
    /// turn. Other participants learn of it when the turn ends.
    func noteCommitToAttached(_ db: Database, _ tables: DatabaseChange.Tables) {
        // If this cannot be read, a superfluous notification is the smaller harm.
        guard !tables.isEmpty, (try? db.hasAttachedDatabases) != false else { return }
        writer.recorder?.noteAside(tables)
        observatory.notifyWriter(tables)
    }
}

extension DatabaseError {
    fileprivate static func turnIsTaken(_ path: String, _ lender: String) -> DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_MISUSE,
            message: """
                \(path) takes the turns of \(lender), and this write was requested inside of a write of that one, which has the turn. Nothing was \
                done. Write \(path) before or after it, or attach it, and write both in one transaction
                """
        )
    }
}
