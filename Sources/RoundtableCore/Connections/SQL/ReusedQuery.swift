import GRDB
import GRDBSQLite

/// A query of one value. Its statement is compiled once, outside of GRDB's caches. Confined to the connection's queue.
package final class ReusedQuery {
    private let sql: String
    private var statement: OpaquePointer?

    package init(_ sql: String) { self.sql = sql }
    deinit { forget() }

    package func value(_ db: Database) -> Int32? {
        guard let statement = compiled(db) else { return nil }
        defer { sqlite3_reset(statement) }
        return sqlite3_step(statement) == SQLITE_ROW ? sqlite3_column_int(statement, 0) : nil
    }

    /// - returns: nil when there is no row, or when it cannot be read now.
    /// - throws: `SQLITE_PROTOCOL`.
    func text(_ db: Database) throws -> String? {
        guard let statement = compiled(db) else { return nil }
        defer { sqlite3_reset(statement) }
        guard sqlite3_step(statement) == SQLITE_ROW else {
            try db.throwIfLockedOut()
            return nil
        }
        return sqlite3_column_text(statement, 0).map { String(cString: $0) }
    }

    private func compiled(_ db: Database) -> OpaquePointer? {
        if statement == nil { statement = try? db.prepareRaw(sql) }
        return statement
    }

    /// Finalizes the statement, because a connection with statements cannot be closed.
    package func forget() {
        sqlite3_finalize(statement)
        statement = nil
    }
}
