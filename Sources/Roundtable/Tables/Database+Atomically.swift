import GRDB

extension Database {
    /// In a savepoint of the transaction that goes on, or else in a write transaction: an error leaves nothing half done.
    func atomically(_ body: () throws -> Void) throws {
        if isInsideTransaction {
            try inSavepoint {
                try body()
                return .commit
            }
        } else {
            try inTransaction(.immediate) {
                try body()
                return .commit
            }
        }
    }
}
