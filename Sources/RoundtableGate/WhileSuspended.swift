/// What a write or an opening does while the database is suspended.
///
/// Reads ignore this. They are only affected with ``SuspensionPolicy/everything``: then blocking reads fail and async reads wait.
public struct WhileSuspended: Sendable, Equatable {
    private let waits: Bool

    /// Waits until the database is resumed. In blocking code, this blocks the thread, which must not be the thread that resumes.
    public static let wait = WhileSuspended(waits: true)

    /// Throws an error of code `SQLITE_INTERRUPT`, whose `isSuspension` is true.
    public static let fail = WhileSuspended(waits: false)
}

/// What a suspended database releases.
public enum SuspensionPolicy: String, Sendable, CaseIterable, Codable {
    /// The database releases write locks, for which the system kills the process. Reads continue, and new ones may begin. This is the
    /// default.
    ///
    /// This is for databases in WAL mode whose header the system can read: all databases that Roundtable opens for writing,
    /// unless their header is encrypted. A database that is opened read-only and is not in WAL mode releases everything.
    case writeLocks

    /// The database releases everything: reads are drained too, and all connections are closed. They are opened again on demand
    /// after the database was resumed.
    ///
    /// Meanwhile, reads in asynchronous code wait, and reads in blocking code fail. Running reads may finish until shortly before
    /// the deadline; then they are interrupted, and fail. Snapshots lose their moment: their reads throw `SQLITE_ABORT`, for
    /// which `isSuspension` is false, until `advance()` moves them to another moment after `resume()`, and reports all commits
    /// since. A `Statement` or cursor that you keep for longer than an access keeps its connection open, which
    /// ``SharedDatabase/suspend(deadline:)`` reports as held.
    ///
    /// Value observations, `DatabaseRegionObservation`, ``SharedDatabase/changes(in:)`` and observers that were added by
    /// ``SharedDatabase/add(transactionObserver:extent:)`` continue. Value observations are restarted: they deliver a fresh
    /// value, even if it is the same, and `handleEvents` reports that they were cancelled and started. An observation that is
    /// started meanwhile delivers its first value after `resume()`, whatever its scheduler.
    ///
    /// What belongs to a SQLite connection alone does not survive: temporary tables and views, attached databases, functions,
    /// collations and pragmas that do not come from ``SharedDatabase/Options/configuration``, and observers that were added by
    /// `Database.add(transactionObserver:extent:)` inside an access.
    case everything
}
