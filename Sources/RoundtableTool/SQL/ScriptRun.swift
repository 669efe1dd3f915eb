import GRDB

/// One run of a script on one connection.
struct ScriptRun {
    /// Thrown by a run that may only read, at the first statement that writes. Nothing has been changed then.
    struct NeedsWriting: Error {}

    struct Outcome: Equatable, Sendable {
        var results: [ResultSet] = []
        /// Rows inserted, updated and deleted.
        var changeCount = 0
        var hasWritten = false
    }

    enum Permission {
        case readOnly
        /// Runs up to the first statement that writes.
        case readUnlessWriting
        case readWrite
    }

    let script: SQLScript
    let parameters: Parameters
    /// What to answer to `PRAGMA journal_mode` where the connection does not know (see `Onlooker.Manner.still`).
    var journalMode: String?

    /// All in one transaction, unless the script manages its own.
    func run(_ db: Database, _ permission: Permission) throws -> Outcome {
        if script.managesTransactions {
            defer {
                // Only an error, or a script without COMMIT, leaves one open; both undo it.
                if db.isInsideTransaction { try? db.rollback() }
            }
            let outcome = try runStatements(db, permission)
            guard !db.isInsideTransaction else {
                throw ToolError("the statements leave a transaction open: it was rolled back. Add 'COMMIT'.")
            }
            return outcome
        }
        var outcome = Outcome()
        try db.inTransaction(permission == .readWrite ? .immediate : .deferred) {
            outcome = try runStatements(db, permission)
            return .commit
        }
        return outcome
    }

    private func runStatements(_ db: Database, _ permission: Permission) throws -> Outcome {
        var outcome = Outcome()
        var parameters = parameters
        for source in script.statements {
            let statement = try db.makeStatement(sql: source.text)
            let writes = !statement.isReadonly && !source.onlyAsks
            if writes, permission == .readUnlessWriting { throw NeedsWriting() }
            outcome.hasWritten = outcome.hasWritten || writes
            try parameters.bind(to: statement)
            let before = db.totalChangesCount
            if let result = try rows(of: statement, source) { outcome.results.append(result) }
            // Its own, and not those of triggers. A statement that changes nothing leaves the count of the one before.
            if db.totalChangesCount != before { outcome.changeCount += db.changesCount }
        }
        try parameters.checkAllUsed()
        return outcome
    }

    /// nil for a statement that returns no rows by its kind.
    private func rows(of statement: Statement, _ source: SQLScript.Statement) throws -> ResultSet? {
        if let journalMode, source.asksJournalMode {
            return ResultSet(columns: statement.columnNames, rows: [[journalMode.databaseValue]])
        }
        guard statement.columnCount > 0 else {
            try statement.execute()
            return nil
        }
        var rows: [[DatabaseValue]] = []
        let cursor = try Row.fetchCursor(statement)
        while let row = try cursor.next() { rows.append(Array(row.databaseValues)) }
        // Setting a pragma has a column by its kind, and no row.
        if rows.isEmpty, source.words.first == "PRAGMA" { return nil }
        return ResultSet(columns: statement.columnNames, rows: rows)
    }
}
