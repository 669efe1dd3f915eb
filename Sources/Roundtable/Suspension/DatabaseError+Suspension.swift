import GRDB

extension ResultCode {
    /// `SQLITE_INTERRUPT`, because the database is suspended. The extended code is Roundtable's own: SQLite has none.
    public static let databaseSuspended = ResultCode(rawValue: ResultCode.SQLITE_INTERRUPT.rawValue | 0x5254 << 8)
}

extension DatabaseError {
    /// Whether this access was turned away, or interrupted and rolled back, because its database was being suspended. It may be tried
    /// again after ``SharedDatabase/resume()``.
    public var isSuspension: Bool { extendedResultCode == .databaseSuspended }

    /// An access that did not begin.
    static func suspended(_ path: String) -> DatabaseError {
        DatabaseError(
            resultCode: .databaseSuspended,
            message: """
                \(path) is suspended, so that the system does not freeze this process while it holds a lock. Nothing was done. Try \
                again after resume(), wait with whileSuspended: .wait, or use withProtectedAccess
                """
        )
    }

    /// A transaction that did.
    static func interrupted(_ path: String, _ access: Suspension.Access, sql: String?) -> DatabaseError {
        DatabaseError(
            resultCode: .databaseSuspended,
            message: """
                \(path): rolled back, because the database was suspended before this \(access) could finish. Try again after resume()
                """,
            sql: sql
        )
    }
}
