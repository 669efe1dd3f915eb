import GRDB
import RoundtableKernel

/// How all writes reach the writer connection: on its queue, marked as writing, with the turn.
extension SharedDatabase {
    func onWriter<T>(_ site: CallSite?, _ body: (Database) throws -> T) rethrows -> T {
        guard isInOwnProcess else { return try failingAccess(body) }
        return try writer.queue.inDatabase { db in try writing(db, at: site) { try body(db) } }
    }

    /// A cancelled task does not wait for its turn.
    func onWriter<T: Sendable>(_ site: CallSite?, _ body: @Sendable (Database) throws -> T) async throws -> T {
        try checkProcess()
        let cancellation = WaitCancellation()
        return try await withTaskCancellationHandler {
            try await writer.queue.writeWithoutTransaction { db in
                try self.writing(db, at: site, cancellation: cancellation) {
                    try Task.checkCancellation()
                    return try body(db)
                }
            }
        } onCancel: {
            cancellation.cancel()
        }
    }

    func onWriterLater(_ site: CallSite?, _ body: @escaping @Sendable (Database) -> Void) {
        guard isInOwnProcess else { return failingAccess(body) }
        writer.queue.asyncWriteWithoutTransaction { db in self.writing(db, at: site) { body(db) } }
    }

    func onWriterReentrantly<T>(_ site: CallSite?, _ body: (Database) throws -> T) rethrows -> T {
        guard isInOwnProcess else { return try failingAccess(body) }
        // Inside a write, the turn is had already.
        if Access.isWriting(self) { return try writer.queue.unsafeReentrantWrite(body) }
        return try writer.queue.unsafeReentrantWrite { db in
            try writing(db, at: site) { try withoutTransaction(db, body) }
        }
    }

    /// A write transaction. On the writer's queue, with the turn.
    func transaction<T>(_ db: Database, _ updates: (Database) throws -> T) throws -> T {
        let result = try writer.transaction(db) {
            try writer.forgetSchemaIfChanged(db)
            writer.prepareHistory(db)
            return try updates(db)
        }
        writer.noteOwnCommit(db)
        return result
    }

    /// What a write without a transaction begins with.
    func withoutTransaction<T>(_ db: Database, _ body: (Database) throws -> T) rethrows -> T {
        // What keeps this from looking, `body` meets too, and tells.
        writer.lookAtHistory(db)
        return try body(db)
    }

    private func writing<T>(
        _ db: Database,
        at site: CallSite?,
        cancellation: WaitCancellation? = nil,
        _ body: () throws -> T
    ) rethrows -> T {
        try Access.with(self, reader: nil) {
            // The turn is given up by then.
            defer { longReads.look(db) }
            return try writer.withTurn(db, at: site, cancellation: cancellation, body)
        }
    }
}
