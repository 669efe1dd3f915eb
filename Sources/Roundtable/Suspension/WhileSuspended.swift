/// What an access does that meets a closed gate.
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
    case everything
}
