import GRDB
import RoundtableGate
import RoundtableKernel
import Synchronization

// Rule U1: A turn of a raw handle is a write of its database (W2, F2): it waits, is refused and is interrupted as such, and its records in
// the ring are this participant's. At a deadline, the statement that runs is interrupted (`sqlite3_interrupt`). What the owner reads or writes
// outside of turns is its own affair, and so are the locks that its idle connection holds under the policy *everything* (W8).

extension WriterConnection {
    /// Lets a connection of the program write with the turn of this one. Call it on `queue`, within the turn.
    ///
    /// - parameter named: the tables that `body` may write; nil: any.
    /// - parameter body: writes with `raw`.
    func lendTurn(
        _ db: Database,
        to raw: RawConnection,
        writing named: Set<String>?,
        _ body: () throws -> Void
    ) throws {
        if isClosing { throw DatabaseError.closed(path) }
        // From here to the end, a statement that another thread runs on the connection can be interrupted, because this waits for it.
        borrower.withLock { $0 = raw }
        defer { borrower.withLock { $0 = nil } }
        try waitForLock(of: raw)
        try files?.check()
        try detectOtherCommits(db)
        try admitWrite()
        if gate.isAborted { throw Refusal.turnedBack }
        let beginning = recorder?.willCommit(with: raw, db, named)
        let result: Result<Void, any Error> = gate.isAborted ? .failure(Refusal.turnedBack) : Result { try body() }

        // Rule U7: A write transaction that is open when the turn ends is rolled back, because all other writers wait for it.
        let isLeftOpen = raw.endWriting()
        if let beginning, recorder?.didCommit(with: raw, beginning) == true { writeTransaction.noteUnseenCommit() }
        // Rule U8: A raw handle's connection has no automatic checkpoint of SQLite's: it is turned off when the handle is made, where SQLite's
        // own is on, so that no hook of the owner's is replaced. Its commits lead to the checkpoints of K2 and K6 as those of the writer do.
        checkpointer?.lookAtWAL(db)
        try result.get()
        if isLeftOpen { throw RawHandleError.transactionLeftOpen(path: path) }
        // What was committed may have gone into a file that is lost.
        try files?.check()
    }

    /// Waits until no connection writes, so that the connection need not wait for a program that takes no turns.
    private func waitForLock(of raw: RawConnection) throws {
        var tries = 0
        while !raw.isWriteLockFree {
            if raw.isInTransaction { throw RawHandleError.transactionOpen(path: path) }
            guard busyHandler.next(tries: tries) else {
                if gate.hasGivenUp.load(ordering: .acquiring) { throw Refusal.turnedBack }
                throw DatabaseError(resultCode: .SQLITE_BUSY)
            }
            tries += 1
        }
        if raw.isInTransaction { throw RawHandleError.transactionOpen(path: path) }
    }
}
