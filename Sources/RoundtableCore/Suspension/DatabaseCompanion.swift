import RoundtableGate

/// What lives as long as a database, and must know when it is suspended, resumed or closed: publishers, the owner of an outbox. The
/// database knows this role; `SharedDatabase.companions` has the list, and its order. It passes on what it learns of the gate.
package protocol DatabaseCompanion: GateFollower {
    /// The program shuts down: writes that have not begun are refused from now on, for good.
    func databaseWillRefuseWrites()

    /// The database is about to be closed. Reads still work, unless `isWithinAccess`.
    ///
    /// - throws: what keeps the database from closing.
    func databaseWillClose(isWithinAccess: Bool) throws

    /// The writer is closed, and the readers are about to be.
    func databaseIsClosing()

    /// The database is closed.
    func databaseDidClose()

    /// A file of the database was lost. No access works any more. The database is closed later, or released.
    func databaseLostFile()

    /// The database could not be closed, and remains open. Not called while it is suspended.
    func databaseStaysOpen()
}

extension DatabaseCompanion {
    package func databaseWillRefuseWrites() {}
    package func databaseWillClose(isWithinAccess: Bool) throws {}
    package func databaseIsClosing() {}
    package func databaseDidClose() {}
    package func databaseLostFile() {}
    package func databaseStaysOpen() {}
}
