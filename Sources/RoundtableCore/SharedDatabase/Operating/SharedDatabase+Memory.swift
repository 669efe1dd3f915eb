import GRDB
import RoundtableGate
import Synchronization

extension SharedDatabase {
    /// Frees memory that this participant can do without: closes the connections of its reads, which later reads open again (not with
    /// `Configuration.persistentReadOnlyConnections`), and empties the page cache of its writer. Call it when the system warns that memory is
    /// short.
    ///
    /// It blocks the calling thread until the accesses that run in this process have ended, so do not call it within one. Snapshots and
    /// observations keep their connections. It does nothing while the database is suspended, or after it was closed.
    public func releaseMemory() {
        guard isInOwnProcess, !isClosed.withLock({ $0 }),
            let visit = gate.enter(.closing, at: nil, isRunning: true)
        else { return }
        defer { gate.leave(visit) }
        let isWithinAccess = Access.current(to: self) != nil
        precondition(!isWithinAccess, "releaseMemory() waits for all accesses, so it cannot be called within one.")
        // A connection with a statement that is still used stays, and so do all if the database is closed meanwhile.
        if !options.configuration.persistentReadOnlyConnections {
            try? readers.barrier { try parking.exclusively { try readers.closeIdle() } }
        }
        writer.queue.releaseMemory()
    }
}
