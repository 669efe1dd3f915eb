import GRDB
import GRDBSQLite
import RoundtableGate

extension WriterConnection {
    // Rule S15: The content of a database in use is replaced by SQLite's backup, from a temporary copy of the source that was verified
    // (`quick_check`), refused as S6 and E4 refuse an opener, and migrated before: on the writer connection, in a turn and one commit. With
    // WRITE, fence, policy (S8) and files are checked as in the commit hook. A record is reserved, which becomes *unsure*, so that all
    // observers are told. The schema cookie is one higher. Refused are another page size or encoding, encrypted databases, the file itself,
    // and what is no database.

    /// Makes the content of `source` that of this database, in one commit (rule S15). Call it with the turn on `queue`, outside of a
    /// transaction.
    ///
    /// - Parameters:
    ///   - source: in a transaction, or not written by anybody.
    ///   - willContinue: called before each step, with the number of pages that are copied, and of all. What it throws ends the copying, and
    ///     nothing is changed.
    package func replaceContent(
        _ db: Database,
        with source: Database,
        willContinue: (_ completed: Int, _ total: Int) throws -> Void
    ) throws {
        if isClosing { throw DatabaseError.closed(path) }
        guard let backup = sqlite3_backup_init(db.sqliteConnection, "main", source.sqliteConnection, "main") else {
            throw Self.lastError(db)
        }
        var code = SQLITE_OK
        do {
            // Without pages, this takes the WRITE lock, and keeps it until the end. As with each write, the busy handler waits for it.
            code = sqlite3_backup_step(backup, 0)
            try check(code, db)
            // A replacement is checked as a commit is (rule S10).
            try recorder?.admitUnseen()
            while code == SQLITE_OK {
                let (rest, total) = (sqlite3_backup_remaining(backup), sqlite3_backup_pagecount(backup))
                try willContinue(Int(total - rest), Int(total))
                if gate.isAborted { throw WriteTransaction.aborted }
                // The commit calls no hook that would look (rule W12b).
                try files?.check()
                if total > 0, rest <= StagedContent.pagesPerStep { recorder?.willCommitUnseen() }
                code = sqlite3_backup_step(backup, StagedContent.pagesPerStep)
                if code != SQLITE_DONE { try check(code, db) }
            }
        } catch {
            // This rolls back what was copied.
            sqlite3_backup_finish(backup)
            recorder?.didEndUnseen()
            throw error
        }
        sqlite3_backup_finish(backup)
        didReplaceContent(db)
        try files?.check()
    }

    private func check(_ code: CInt, _ db: Database) throws {
        if code != SQLITE_OK { throw Self.lastError(db, code) }
    }

    private static func lastError(_ db: Database, _ code: CInt? = nil) -> DatabaseError {
        let connection = db.sqliteConnection
        return DatabaseError(
            resultCode: ResultCode(rawValue: code ?? sqlite3_extended_errcode(connection)),
            message: code.map { String(cString: sqlite3_errstr($0)) } ?? String(cString: sqlite3_errmsg(connection))
        )
    }

    /// SQLite calls no hook for the commit, so what the hooks do is done here.
    private func didReplaceContent(_ db: Database) {
        recorder?.didEndUnseen()
        writeTransaction.noteUnseenCommit()
        gate.runningDidCommit()
        db.clearSchemaCache()
        checkpointer?.lookAtWAL(db)
        try? detectOtherCommits(db)
    }
}
