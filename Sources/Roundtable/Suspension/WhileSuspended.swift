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
    /// For databases in WAL mode whose header the system can read: all that Roundtable opens, unless they are encrypted with their
    /// header.
    case writeLocks

    /// Everything: reads are drained too, all connections are closed, and opened again when they are needed after the database was
    /// resumed.
    ///
    /// Meanwhile, blocking reads fail and async reads wait. What belongs to one connection is gone afterwards: temporary tables, attached
    /// databases, functions and observers that an access has added; put them into ``SharedDatabase/Options/configuration``. Snapshots lose
    /// their moment: reads throw `SQLITE_ABORT`, which is no `isSuspension`, until ``SharedDatabaseSnapshot/advance()`` after resuming, which
    /// tells all that was committed meanwhile. Observations go on; `handleEvents(didCancel:)` of a `ValueObservation` is called each time.
    case everything
}
