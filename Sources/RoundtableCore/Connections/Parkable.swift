// Rule W8: A participant that is suspended with the policy *everything* closes all its connections (it *parks*), without the checkpoint
// that SQLite makes when the last connection closes, and the exclusive lock for it (`SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE`). One that is
// dropped without being closed does the same. Its seat, its mapping of the control block and its position in the ring stay.

/// What can give its SQLite connections up and take them back, for the policy `everything` (rule W8).
///
/// `SharedDatabase` calls these functions on the thread that suspends or resumes, for one thing after the other, in the order of its
/// list and in the reverse order to unpark. It holds the lock of `Parking`, except for `didUnpark()`.
///
/// ```
/// willPark() ─► park() ─► stepParking() ─► interruptParking()      unpark() ─► didUnpark()
///                 ▲ false  ▲ something is held   │
///                 └────────┴─────────────────────┘
/// ```
///
/// `unpark()` may follow each of the calls, because a suspension can be cancelled. Parking may also be repeated without it.
protocol Parkable: AnyObject, Sendable {
    /// What the connections are used for, in the report of those that stay open.
    var use: HeldConnection.Use { get }

    /// Called for the whole list before the first `park()`. It ends what would report to the user that connections close. The default
    /// does nothing.
    func willPark()

    /// Turns new accesses away, and begins to close the connections that are not in use. It waits for no access. Until `unpark()`, no
    /// connection opens: accesses wait, or throw `DatabaseError.suspended`.
    ///
    /// - returns: false when nothing was done, because another thread is opening a connection. The caller calls it again.
    func park() -> Bool

    /// Whether something that has begun here may still need the connections of those that come later in the list. They are parked when
    /// it has ended, or at the deadline. The default is false.
    var needsLaterOnes: Bool { get }

    /// Closes the connections that can be closed now. Called again and again after `park()`, until nothing is held.
    ///
    /// - returns: the connections that stay open, and why. They close as soon as their accesses end.
    func stepParking() -> [HeldConnection]

    /// Interrupts the statements that run on connections that are to be closed. Called again and again shortly before the deadline,
    /// because an interruption only affects one statement. The default does nothing.
    func interruptParking()

    /// Lets connections be opened again, or be used again if they could not be closed. Does nothing if this is not parked.
    func unpark()

    /// Called for the whole list after the last `unpark()`, without a lock. Another thread may be parking again. The default does
    /// nothing.
    func didUnpark()
}

extension Parkable {
    func willPark() {}
    var needsLaterOnes: Bool { false }
    func interruptParking() {}
    func didUnpark() {}
}
