import GRDB
import RoundtableGate

extension ResultCode {
    /// `SQLITE_INTERRUPT`, because the database is suspended. The extended code is Roundtable's own: SQLite has none.
    public static let databaseSuspended = ResultCode(rawValue: ResultCode.SQLITE_INTERRUPT.rawValue | 0x5254 << 8)
}

extension DatabaseError {
    /// Whether this access was turned away, or interrupted and rolled back, because its database was being suspended. It can be
    /// retried after ``SharedDatabase/resume()``.
    ///
    /// A typical cause is a timer or a network callback after the app has left the foreground. If ``SharedDatabase/isSuspended`` stays true
    /// in the foreground, a call of ``SharedDatabase/resume()`` is missing.
    public var isSuspension: Bool { extendedResultCode == .databaseSuspended }

    /// The error of an access that did not begin.
    package static func suspended(_ path: String) -> DatabaseError {
        DatabaseError(
            resultCode: .databaseSuspended,
            message: """
                \(path) is suspended, so that the system does not freeze this process while it holds a lock. Nothing was done. Try \
                again after resume(), wait for it in async code, or use withProtectedAccess
                """
        )
    }

    /// The error of a database that was not opened.
    static func openingSuspended(_ path: String) -> DatabaseError {
        DatabaseError(
            resultCode: .databaseSuspended,
            message: """
                \(path) was suspended before it was open. A migration that was running was rolled back. Open it again after resume(), or \
                with the async function, which waits for that
                """
        )
    }

    /// The error of an access that was interrupted.
    static func interrupted(
        _ path: String,
        _ access: SuspensionReport.Access,
        _ interruption: SuspensionGate.Interruption,
        sql: String?
    ) -> DatabaseError {
        let (what, next) =
            switch interruption {
            case .rolledBack: ("rolled back", "Try again after resume()")
            case .partly:
                ("interrupted", "What it had committed before is kept: check this before you try again, after resume()")
            }
        return DatabaseError(
            resultCode: .databaseSuspended,
            message: "\(path): \(what), because the database was suspended during \(access). \(next)",
            sql: sql
        )
    }
}
