import GRDB
import GRDBSQLite

/// What a participant's writer connection does for the history: it stamps rows with author and transaction, puts triggers
/// back after schema changes, and prunes (rules H5, H8, H10).
///
/// The triggers of the tracked tables are there for every program, so they cannot know who writes. A temporary trigger of this
/// connection can: it calls two functions that only this connection has.
final class HistoryStamp: @unchecked Sendable {
    // @unchecked: confined to the writer's queue, where SQLite calls the functions.
    var author = ""
    private var needsLook = true
    /// The schema that was looked at last; nil when there was no history in it.
    private var schemaVersion: Int32?
    /// Own and others' commits move it: whether what `look` did has been committed when a transaction is rolled back.
    private var versionAtLook: UInt32?
    private let schemaVersionStatement = ReusedPragma("PRAGMA main.schema_version")
    /// Rows written since the last pruning. The first one comes early: nobody may have pruned for long.
    private(set) var rowsSincePruning = HistoryPruning.interval
    private var connection: SQLiteConnection?
    /// The first row of the transaction that the connection was in when it last wrote one.
    private var transaction: Int64 = 0
    private var transactionVersion: UInt32?

    // MARK: Functions

    /// Gives a connection that begins the functions. They cost nothing until they are called.
    func addFunctions(to db: Database) throws {
        connection = db.sqliteConnection
        // Of the connection before, if there was one: its temporary trigger went with it.
        needsLook = true
        schemaVersion = nil
        versionAtLook = nil
        transactionVersion = nil
        let context = Unmanaged.passUnretained(self).toOpaque()
        try addFunction(db, "roundtable_author", count: 0, context) { context, _, _ in
            let author = HistoryStamp.of(context).author
            // SQLITE_TRANSIENT: SQLite copies the text.
            sqlite3_result_text(context, author, -1, unsafeBitCast(-1, to: sqlite3_destructor_type.self))
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

    /// A transaction is known by its first row. Between two rows of one transaction the connection meets no commit. If it
    /// meets none between two transactions either, the first was undone, and the second begins with the same number.
    private func transaction(ofRow sequence: Int64) -> Int64 {
        rowsSincePruning += 1
        // The history came to be in this very transaction.
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

    /// A temporary trigger whose table went when the database was erased is still there, but asleep: it cannot be dropped, nor
    /// created again. SQLite reads it anew after a temporary schema change was undone.
    static func forget(in db: Database) {
        try? db.inSavepoint {
            try db.execute(sql: "CREATE TEMP TABLE roundtable_history_nothing (nothing)")
            return .rollback
        }
        try? db.execute(sql: "DROP TRIGGER IF EXISTS temp.roundtable_history_stamp")
    }

    /// Puts the temporary trigger into a connection that has the functions. Rolled back with its transaction.
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

    /// Another process has changed the schema.
    func schemaDidChange() { needsLook = true }

    /// A rollback takes the temporary trigger along if it was put in that transaction.
    func didRollback() {
        if dataVersion == versionAtLook { needsLook = true }
    }

    /// A connection with statements does not close.
    func forgetStatements() { schemaVersionStatement.forget() }

    /// Inside a transaction, or outside of one. Never makes a write fail: what cannot be done now is done by a later one, and
    /// readers notice what is missing (rule H8).
    func prepare(_ db: Database) {
        // Own schema changes are told by nobody.
        if let schemaVersion, schemaVersionStatement.value(db) != schemaVersion { needsLook = true }
        if needsLook {
            needsLook = (try? look(db)) == nil
            versionAtLook = dataVersion
        }
        if rowsSincePruning >= HistoryPruning.interval {
            rowsSincePruning = 0
            try? db.atomically { try HistoryPruning.step(db) }
        }
    }

    private func look(_ db: Database) throws {
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
        schemaVersion = schemaVersionStatement.value(db)
    }
}
