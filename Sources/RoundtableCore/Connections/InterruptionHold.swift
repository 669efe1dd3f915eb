import GRDB
import GRDBSQLite

/// Makes `sqlite3_interrupt` last. SQLite forgets an interruption when the last running statement of a connection ends, so an
/// interruption between two statements of a closure is lost. While this is held, a statement runs that reads no table and holds
/// no lock, and [all statements after an interruption fail](https://www.sqlite.org/c3ref/interrupt.html).
///
/// Confined to the connection's queue.
final class InterruptionHold {
    private var statement: OpaquePointer?
    private(set) var isHeld = false

    /// The statement has two rows, so that it still runs after the first.
    private static let sql = "SELECT 1 UNION ALL SELECT 2"

    deinit { sqlite3_finalize(statement) }

    func take(_ db: Database) {
        guard !isHeld else { return }
        // Without this statement, an interruption lasts only as long as SQLite keeps it. The commit is still prevented.
        if statement == nil { statement = try? db.prepareRaw(Self.sql) }
        guard let statement else { return }
        isHeld = sqlite3_step(statement) == SQLITE_ROW
        if !isHeld { sqlite3_reset(statement) }
    }

    func release() {
        guard isHeld else { return }
        sqlite3_reset(statement)
        isHeld = false
    }

    /// Finalizes the statement, because a connection with statements does not close.
    func forget() {
        release()
        sqlite3_finalize(statement)
        statement = nil
    }
}

extension Database {
    func interruptNow() {
        if let sqliteConnection { sqlite3_interrupt(sqliteConnection) }
    }
}
