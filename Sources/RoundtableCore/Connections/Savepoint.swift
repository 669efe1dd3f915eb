import GRDB
import GRDBSQLite

/// A part of a write transaction that can be undone without the rest. Shared commits run each write in one, and the owner of an outbox
/// applies each command in one. Confined to the writer's queue.
package final class Savepoint {
    package enum Outcome {
        /// The part is in the transaction.
        case done
        /// The part is undone. The error is the one that it threw, or the one of the commit that it would have needed.
        case undone(any Error)
        /// The transaction of which it is a part has ended, so that all its parts are undone. The error is the one that the part threw; nil
        /// when it threw none, but has ended the transaction itself.
        case lost((any Error)?)
    }

    private let begin = ReusedStatement("SAVEPOINT roundtable_part")
    private let release = ReusedStatement("RELEASE SAVEPOINT roundtable_part")
    private let rollback = ReusedStatement("ROLLBACK TRANSACTION TO SAVEPOINT roundtable_part")
    private let schemaVersion = ReusedQuery("PRAGMA main.schema_version")
    private let transaction: WriteTransaction

    init(in transaction: WriteTransaction) { self.transaction = transaction }

    /// Runs a part of the transaction that is open on the writer connection.
    ///
    /// - throws: the error of `SAVEPOINT`. The part has not run.
    package func run(_ db: Database, _ body: () throws -> Void) throws -> Outcome {
        let rollbacks = transaction.rollbacks
        // A transaction that the part has begun itself does not count, because the earlier parts were in the first one.
        var isStillInTransaction: Bool { db.isInTransaction && transaction.rollbacks == rollbacks }
        do { try begin.execute(db) } catch DatabaseError.SQLITE_INTERRUPT {
            // The interruption came between two parts.
            guard transaction.endInterruption(db) else { throw DatabaseError(resultCode: .SQLITE_INTERRUPT) }
            try begin.execute(db)
        }
        do {
            try body()
            guard isStillInTransaction else { return .lost(nil) }
            if db.hasUnresolvedForeignKeys { throw DatabaseError.unresolvedForeignKeys }
            try release.execute(db)
            return .done
        } catch {
            guard isStillInTransaction else { return .lost(error) }
            // What SQLite has interrupted without ending the transaction is this part alone.
            transaction.endInterruption(db)
            do { try undo(db) } catch { return .lost(error) }
            return .undone(error)
        }
    }

    private func undo(_ db: Database) throws {
        let schema = schemaVersion.value(db)
        try rollback.execute(db)
        try release.execute(db)
        // GRDB may have cached what the part has changed in the schema.
        if schemaVersion.value(db) != schema { db.clearSchemaCache() }
    }

    /// Releases the statements. Call it before the connection closes.
    func forgetStatements() {
        begin.forget()
        release.forget()
        rollback.forget()
        schemaVersion.forget()
    }
}

extension Database {
    /// Whether the open transaction violates foreign keys whose check is deferred, so that it cannot be committed
    /// ([SQLITE_DBSTATUS_DEFERRED_FKS](https://www.sqlite.org/c3ref/c_dbstatus_options.html)).
    var hasUnresolvedForeignKeys: Bool {
        var (current, highest): (CInt, CInt) = (0, 0)
        let code = sqlite3_db_status(sqliteConnection, SQLITE_DBSTATUS_DEFERRED_FKS, &current, &highest, 0)
        return code == SQLITE_OK && current != 0
    }
}

extension DatabaseError {
    /// The error of a commit that would violate foreign keys.
    fileprivate static var unresolvedForeignKeys: DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_CONSTRAINT_FOREIGNKEY,
            message: "FOREIGN KEY constraint failed",
            sql: "COMMIT TRANSACTION"
        )
    }
}
