import GRDB
import GRDBSQLite
import RoundtableCore

// Rule H5: A writer may stamp what it records: a temporary trigger `AFTER INSERT ON main.roundtable_history` of its connection sets
// `author` and `transaction_id` (the first `sequence` of the transaction) of each new row; `roundtable_set_author` gives a part of a write
// another author. Rows of others have NULL.

/// What a participant's writer connection does for the history: it stamps rows with author and transaction, creates missing triggers
/// again after schema changes, and prunes (rules H5, H8, H10).
///
/// The triggers of the tracked tables fire for every program, so they do not know which program writes. A temporary trigger of this
/// connection does: it calls two functions that only this connection has.
final class HistoryStamp: WriteCompanion, @unchecked Sendable {
    // @unchecked: confined to the writer's queue, where SQLite calls the functions.
    private var author = ""
    /// The author of the part of a write that runs now, if it is another one (``DatabaseHistory/write(as:in:_:)``).
    private var authorOfPart: String?
    private var needsLook = true
    /// The version of the schema that was last inspected; nil when it had no history.
    private var schemaVersion: Int32?
    /// The data version at the last call of `look`. Every commit changes it, so it shows after a rollback whether what `look` did has
    /// been committed.
    private var versionAtLook: UInt32?
    /// The number of rows written since the last pruning. The first pruning comes early, because the history may not have been pruned
    /// for long.
    private(set) var rowsSincePruning = HistoryPruning.interval
    private var connection: SQLiteConnection?
    /// The first row of the transaction in which the connection last wrote a row.
    private var transaction: Int64 = 0
    private var transactionVersion: UInt32?

    func participantDidJoin(as author: String) { self.author = author }

    // MARK: Functions

    /// Adds the functions to a new connection. They cost nothing until they are called.
    func install(in db: Database) throws {
        connection = db.sqliteConnection
        // These values belong to the previous connection, whose temporary trigger is gone.
        needsLook = true
        schemaVersion = nil
        versionAtLook = nil
        transactionVersion = nil
        let context = Unmanaged.passUnretained(self).toOpaque()
        try addFunction(db, "roundtable_author", count: 0, context) { context, _, _ in
            let stamp = HistoryStamp.of(context)
            let author = stamp.authorOfPart ?? stamp.author
            // SQLITE_TRANSIENT: SQLite copies the text.
            sqlite3_result_text(context, author, -1, unsafeBitCast(-1, to: sqlite3_destructor_type.self))
        }
        try addFunction(db, "roundtable_set_author", count: 1, context) { context, _, arguments in
            let stamp = HistoryStamp.of(context)
            let previous = stamp.authorOfPart
            stamp.authorOfPart = sqlite3_value_text(arguments![0]).map { String(cString: $0) }
            guard let previous else { return sqlite3_result_null(context) }
            sqlite3_result_text(context, previous, -1, unsafeBitCast(-1, to: sqlite3_destructor_type.self))
        }
        try addFunction(db, "roundtable_transaction", count: 1, context) { context, _, arguments in
            let sequence = sqlite3_value_int64(arguments![0])
            sqlite3_result_int64(context, HistoryStamp.of(context).transaction(ofRow: sequence))
        }
    }

    private func addFunction(
        _ db: Database,
        _ name: String,
        count: Int32,
        _ context: UnsafeMutableRawPointer,
        _ body: @convention(c) (OpaquePointer?, Int32, UnsafeMutablePointer<OpaquePointer?>?) -> Void
    ) throws {
        let code = sqlite3_create_function_v2(
            db.sqliteConnection,
            name,
            count,
            SQLITE_UTF8,
            context,
            body,
            nil,
            nil,
            nil
        )
        guard code == SQLITE_OK else { throw DatabaseError(lastErrorOf: db) }
    }

    private static func of(_ context: OpaquePointer?) -> HistoryStamp {
        Unmanaged<HistoryStamp>.fromOpaque(sqlite3_user_data(context)).takeUnretainedValue()
    }

    /// Sets the author of the changes that follow, in this write; nil for the participant's.
    ///
    /// - returns: the author that was set before.
    static func setAuthor(_ author: String?, in db: Database) throws -> String? {
        let statement: Statement
        do {
            statement = try db.makeStatement(sql: "SELECT roundtable_set_author(?)")
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
            throw DatabaseError(
                resultCode: .SQLITE_MISUSE,
                message: """
                    \(db.filePath): only inside a write of a SharedDatabase, changes can be recorded with another author. Use \
                    db.write { db in … } of the SharedDatabase.
                    """
            )
        }
        return try String.fetchOne(statement, arguments: [author])
    }

    /// Returns the id of the transaction that writes the row: the sequence number of its first row.
    ///
    /// The data version changes with every commit. If it has not changed since the previous row, either this row belongs to the same
    /// transaction, or that transaction was rolled back. After a rollback, the next transaction reuses the sequence number of the
    /// first row, so the stored id is right in both cases.
    private func transaction(ofRow sequence: Int64) -> Int64 {
        rowsSincePruning += 1
        // The history was created in this transaction.
        if schemaVersion == nil { needsLook = true }
        let version = dataVersion
        if version == nil || version != transactionVersion || sequence < transaction {
            transactionVersion = version
            transaction = sequence
        }
        return transaction
    }

    private var dataVersion: UInt32? {
        var version: UInt32 = 0
        let code = sqlite3_file_control(connection, "main", SQLITE_FCNTL_DATA_VERSION, &version)
        return code == SQLITE_OK ? version : nil
    }

    // MARK: Temporary trigger

    /// Removes the temporary trigger. If its table was removed when the database was erased, the trigger still exists, but it can
    /// neither be dropped nor created again. SQLite reads it again after a temporary schema change was rolled back.
    static func forget(in db: Database) {
        try? db.inSavepoint {
            try db.execute(sql: "CREATE TEMP TABLE roundtable_history_nothing (nothing)")
            return .rollback
        }
        try? db.execute(sql: "DROP TRIGGER IF EXISTS temp.roundtable_history_stamp")
    }

    /// Creates the temporary trigger on a connection that has the functions. It is rolled back with its transaction.
    static func install(in db: Database) throws {
        let sql = "SELECT roundtable_author(), roundtable_transaction"
        guard (try? db.makeStatement(sql: "\(sql)(1)")) != nil else { return }
        try db.execute(
            sql: """
                CREATE TEMP TRIGGER IF NOT EXISTS roundtable_history_stamp AFTER INSERT ON main.roundtable_history BEGIN
                    UPDATE roundtable_history
                    SET author = roundtable_author(), transaction_id = roundtable_transaction(new.sequence)
                    WHERE sequence = new.sequence;
                END
                """
        )
    }

    // MARK: Before a write

    /// Called when another process has changed the schema.
    func schemaDidChange() { needsLook = true }

    /// Called after a rollback, which removes the temporary trigger if that was created in the same transaction.
    func didRollback() {
        if dataVersion == versionAtLook { needsLook = true }
    }

    /// Prepares a write, inside a transaction or outside of one. It never makes a write fail: what fails now is done before a later
    /// write, and readers detect what is missing (rule H8).
    func prepare(_ db: Database, schemaVersion pragma: ReusedQuery) {
        authorOfPart = nil
        // The connection is not notified of its own schema changes.
        if let schemaVersion, pragma.value(db) != schemaVersion { needsLook = true }
        if needsLook {
            needsLook = (try? look(db, pragma)) == nil
            versionAtLook = dataVersion
        }
        if rowsSincePruning >= HistoryPruning.interval {
            rowsSincePruning = 0
            try? db.atomically { try HistoryPruning.step(db) }
        }
    }

    private func look(_ db: Database, _ pragma: ReusedQuery) throws {
        schemaVersion = nil
        guard try HistoryTables.exist(db) else {
            rowsSincePruning = 0
            return
        }
        do {
            try HistoryState.checkFormat(db)
        } catch is HistoryError {
            return
        }
        if try TrackedTable.needsSynchronization(db) {
            try db.atomically { try TrackedTable.synchronize(db) }
        }
        try Self.install(in: db)
        schemaVersion = pragma.value(db)
    }
}
