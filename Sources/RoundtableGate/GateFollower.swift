import RoundtableKernel

/// What does something when the gate of a database closes or opens. The followers are called in the order in which they were added: the writer
/// connection, the checkpointer, the database, which passes the calls on to its companions.
///
/// The methods that interrupt, and `gateWillAbort()`, take no lock that is held across a wait: a suspension would miss its deadline.
package protocol GateFollower: AnyObject, Sendable {
    /// Called before the first interruption. Takes back what is inside of the gate without running.
    func gateWillAbort()

    /// Interrupts the writes that run.
    func gateInterruptsWrites()

    /// Interrupts the checkpoint that runs.
    func gateInterruptsCheckpoint()

    /// The gate is closed, and all visits have ended. Reads still work.
    ///
    /// - parameter deadline: when to return at the latest, or soon after. The follower may return as soon as the gate is not to be closed any
    ///   more.
    /// - returns: the accesses that still hold a lock.
    func gateDidClose(_ gate: SuspensionGate, until deadline: Nanoseconds) -> [SuspensionReport.Access]

    /// Called before anything enters again. Reads work.
    func gateWillOpen()
}

extension GateFollower {
    package func gateWillAbort() {}
    package func gateInterruptsWrites() {}
    package func gateInterruptsCheckpoint() {}
    package func gateDidClose(_ gate: SuspensionGate, until deadline: Nanoseconds) -> [SuspensionReport.Access] { [] }
    package func gateWillOpen() {}
}
