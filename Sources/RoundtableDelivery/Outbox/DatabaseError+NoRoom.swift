import GRDB
import RoundtableCore

extension Error {
    /// Returns this error. If the disk is full, the message also says where, and what to do next, which SQLite's message does not say.
    ///
    /// - parameter consequence: what has become of the data that was to be written.
    func explainingNoRoom(in path: String, _ consequence: String) -> any Error {
        guard let error = self as? DatabaseError, error.isNoRoom else { return self }
        return DatabaseError(
            resultCode: error.extendedResultCode,
            message: """
                \(path): no room to write (\(error.plainMessage)): the disk is full, or the user's quota is used up. \(consequence) Free \
                space there, and where temporary files are; or the database has reached its limit (PRAGMA max_page_count).
                """
        )
    }
}

extension SharedDatabase {
    /// Runs a change of the outcomes of commands, and explains the error of a full disk.
    func explainingNoRoom<Value>(_ body: () throws -> Value) throws -> Value {
        do {
            return try body()
        } catch {
            throw error.explainingNoRoom(in: path, "Nothing was changed: try again when there is space.")
        }
    }

    func explainingNoRoom<Value>(_ body: () async throws -> Value) async throws -> Value {
        do {
            return try await body()
        } catch {
            throw error.explainingNoRoom(in: path, "Nothing was changed: try again when there is space.")
        }
    }
}
