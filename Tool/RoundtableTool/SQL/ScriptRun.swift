import GRDB
import RoundtableToolSupport

/// One run of a script on one connection.
struct ScriptRun {
    /// A run that may only read throws this error at the first statement that writes, before it changes anything.
    struct NeedsWriting: Error {}

    struct Outcome {
        var results: [ResultSet] = []
        /// The number of inserted, updated and deleted rows.
        var changeCount = 0
        var hasWritten = false
    }

    enum Permission {
        case readOnly
        /// The run ends at the first statement that writes, with `NeedsWriting`.
        case readUnlessWriting
        case readWrite
    }

    /// What has run of a script.
    struct Progress {
        fileprivate(set) var outcome = Outcome()
        fileprivate var count = 0
        fileprivate var parameters: Parameters
    }

    let script: SQLScript
    let parameters: Parameters
    /// The answer to `PRAGMA journal_mode` where the connection does not know it (see `Onlooker.Manner.still`).
    var journalMode: String?

    /// Runs all statements in one transaction, unless the script manages its own transactions.
    func run(_ db: Database, _ permission: Permission) throws -> Outcome {
        var progress = begin()
        if script.managesTransactions {
            try runOwnTransactions(&progress, db, permission) { false }
        } else {
            try db.inTransaction(permission == .readWrite ? .immediate : .deferred) {
                try runStatements(&progress, db, permission) { false }
                return .commit
            }
        }
        return progress.outcome
    }

    func begin() -> Progress { Progress(parameters: parameters) }

    /// Runs the next statements of a script that manages its own transactions.
    ///
    /// - parameter isDue: asked between two transactions: whether to return, so that others may write.
    /// - returns: whether all statements have run.
    @discardableResult
    func runOwnTransactions(
        _ progress: inout Progress,
        _ db: Database,
        _ permission: Permission,
        isDue: () -> Bool
    ) throws -> Bool {
        defer {
            // Only an error, or a script without COMMIT, leaves a transaction open. Both roll it back.
            if db.isInsideTransaction { try? db.rollback() }
        }
        let hasEnded = try runStatements(&progress, db, permission) { !db.isInsideTransaction && isDue() }
        guard !db.isInsideTransaction else {
            throw ToolError("the statements leave a transaction open: it was rolled back. Add 'COMMIT'.")
        }
        return hasEnded
    }

    /// - returns: whether all statements have run.
    @discardableResult
    private func runStatements(
        _ progress: inout Progress,
        _ db: Database,
        _ permission: Permission,
        until isDue: () -> Bool
    ) throws -> Bool {
        for source in script.statements.dropFirst(progress.count) {
            let statement = try db.makeStatement(sql: source.text)
            let writes = !statement.isReadonly && !source.onlyAsks
            if writes, permission == .readUnlessWriting { throw NeedsWriting() }
            progress.outcome.hasWritten = progress.outcome.hasWritten || writes
            try progress.parameters.bind(to: statement)
            let before = db.totalChangesCount
            if let result = try rows(of: statement, source) { progress.outcome.results.append(result) }
            // This count excludes changes by triggers. A statement that changes nothing leaves the count of the statement before.
            if db.totalChangesCount != before { progress.outcome.changeCount += db.changesCount }
            progress.count += 1
            if progress.count < script.statements.count, isDue() { return false }
        }
        try progress.parameters.checkAllUsed()
        return true
    }

    /// The rows that the statement returns; nil for a kind of statement that never returns rows.
    private func rows(of statement: Statement, _ source: SQLScript.Statement) throws -> ResultSet? {
        if let journalMode, source.asksJournalMode {
            let rows = StoredRows(columnCount: 1)
            try rows.append([journalMode.databaseValue])
            return ResultSet(columns: statement.columnNames, rows: rows)
        }
        guard statement.columnCount > 0 else {
            try statement.execute()
            return nil
        }
        let rows = StoredRows(columnCount: statement.columnCount)
        let cursor = try Row.fetchCursor(statement)
        while let row = try cursor.next() { try rows.append(row.databaseValues) }
        // A statement that sets a pragma has a column, but no row.
        if rows.isEmpty, source.words.first == "PRAGMA" { return nil }
        return ResultSet(columns: statement.columnNames, rows: rows)
    }
}
