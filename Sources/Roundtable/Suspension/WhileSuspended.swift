/// What writing and opening do that meet a closed gate.
///
/// Reads do not ask: they meet one only with ``SuspensionPolicy/everything``, and then blocking reads fail and async reads wait.
public struct WhileSuspended: Sendable, Equatable {
    private enum Choice { case wait, fail }
    private let choice: Choice

    /// Waits until the database is resumed. In blocking code, this blocks the thread: never the one that resumes.
    public static let wait = WhileSuspended(choice: .wait)

    /// Throws an error of code `SQLITE_INTERRUPT`, whose `isSuspension` is true.
    public static let fail = WhileSuspended(choice: .fail)
}

/// What a suspended database lets go of.
public enum SuspensionPolicy: String, Sendable, CaseIterable, Codable {
    /// Write locks, which is what the system kills for. Reads go on.
    ///
    /// For databases in WAL mode whose header the system can read: all that Roundtable opens for writing, unless they are encrypted
    /// with their header. One that is opened read-only and is not in WAL mode lets go of everything.
    case writeLocks

    /// Everything: reads are drained too, all connections are closed, and opened again when they are needed after the database was
    /// resumed.
    ///
    /// Meanwhile, reads in asynchronous code wait, those in blocking code fail. Reads that run may end until shortly before the
    /// deadline; then they are interrupted, and fail. Snapshots lose their moment: reads throw `SQLITE_ABORT`, which is no
    /// `isSuspension`, until `advance()` goes to another after `resume()`, and tells all that was committed since. A
    /// `Statement` or cursor that you keep for longer than an access keeps its connection open, which the answer of
    /// ``SharedDatabase/suspend(deadline:)`` tells as held.
    ///
    /// Value observations, `DatabaseRegionObservation`, ``SharedDatabase/changes(in:)`` and observers that were added by
    /// ``SharedDatabase/add(transactionObserver:extent:)`` go on. Value observations begin anew: they tell a fresh value, also if it is the
    /// same, and `handleEvents` tells that they were cancelled and started. One that is started meanwhile tells its first value after
    /// `resume()`, whatever its scheduler.
    ///
    /// What belongs to a SQLite connection alone does not survive: temporary tables and views, attached databases, functions, collations and
    /// pragmas that do not come from ``SharedDatabase/Options/configuration``, and observers that were added by
    /// `Database.add(transactionObserver:extent:)` inside of an access.
    case everything
}
