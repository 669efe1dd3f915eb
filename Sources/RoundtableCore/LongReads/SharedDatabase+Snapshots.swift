import Dispatch
import GRDB
import RoundtableKernel

extension SharedDatabase {
    /// Makes a snapshot of the latest commit, on a connection of its own. Read-only participants can make snapshots, too.
    ///
    /// Inside a write and outside of a transaction, the snapshot sees a state that no other participant changes while the writer holds
    /// the turn.
    ///
    /// - throws: `SQLITE_MISUSE` after `close()`; `SQLITE_ERROR` when the database is not in WAL mode; errors of opening a connection.
    @_disfavoredOverload
    public func makeSnapshot(file: StaticString = #fileID, line: UInt = #line) throws -> SharedDatabaseSnapshot {
        try SharedDatabaseSnapshot(self, at: CallSite(file, line))
    }

    /// Makes a snapshot of the latest commit, without blocking the calling thread.
    ///
    /// - throws: the errors of the synchronous function; `CancellationError` if the task is cancelled while this waits for a suspended
    ///   database to be resumed.
    public func makeSnapshot(
        file: StaticString = #fileID,
        line: UInt = #line
    ) async throws -> SharedDatabaseSnapshot {
        let site = CallSite(file, line)
        return try await afterParking {
            try await withUnsafeThrowingContinuation { continuation in
                DispatchQueue.global(qos: self.configuration.readQoS.qosClass).async {
                    continuation.resume(with: Result { try SharedDatabaseSnapshot(self, at: site) })
                }
            }
        }
    }
}
