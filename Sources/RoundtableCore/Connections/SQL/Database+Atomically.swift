import GRDB

extension Database {
    /// Runs `body` in a savepoint of the current transaction, or in a new write transaction if there is none. An error rolls back all of
    /// its changes.
    package func atomically(_ body: () throws -> Void) throws {
        try inSavepoint {
            try body()
            return .commit
        }
    }
}
