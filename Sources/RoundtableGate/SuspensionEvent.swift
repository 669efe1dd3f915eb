/// An event of the suspension gate. The same is in the errors of the accesses, and in the ``SuspensionReport`` that the suspending function
/// returns; this reaches the program even if it looks at neither.
public enum SuspensionEvent: Sendable, Equatable {
    /// An access was interrupted, because the database was suspended, and rolled back. Nothing of it was committed.
    case rolledBack(SuspensionReport.Access)
    /// An access was interrupted, because the database was suspended. It was not a single transaction, and its earlier commits stay.
    case interrupted(SuspensionReport.Access)
    /// A lock is still held at the deadline. If the system freezes the process now, it may end it, and other processes wait for the lock.
    /// Reported once each time the database is suspended.
    case held(SuspensionReport.Access)
}
