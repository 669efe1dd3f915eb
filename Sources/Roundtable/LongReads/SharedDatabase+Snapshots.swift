import Dispatch
import GRDB
import RoundtableKernel

extension SharedDatabase {
    /// Makes a snapshot of the latest commit, on a connection of its own. In a read-only participant too.
    ///
    /// Called inside of a write, outside of a transaction, it sees the state of the database that nobody can change before the
    /// write ends.
    ///
    /// - throws: `SQLITE_MISUSE` after `close()`; `SQLITE_ERROR` when the database is not in WAL mode; what opening a
    ///   connection throws.
    @_disfavoredOverload
    public func makeSnapshot(file: StaticString = #fileID, line: UInt = #line) throws -> SharedDatabaseSnapshot {
        try SharedDatabaseSnapshot(self, at: CallSite(file, line))
    }

    /// Makes a snapshot of the latest commit, without blocking the calling thread.
    public func makeSnapshot(
        file: StaticString = #fileID,
        line: UInt = #line
    ) async throws -> SharedDatabaseSnapshot {
        let site = CallSite(file, line)
        return try await afterParking {
            try await withCheckedThrowingContinuation { continuation in
                DispatchQueue.global(qos: self.configuration.readQoS.qosClass).async {
                    continuation.resume(with: Result { try SharedDatabaseSnapshot(self, at: site) })
                }
            }
        }
    }
}
