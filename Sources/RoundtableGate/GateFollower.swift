import RoundtableKernel

/// What does something when the gate of a database closes or opens. The followers are called in the order in which they were added: the writer
/// connection, the raw handles, the database.
///
/// The methods that interrupt, and `gateWillAbort()`, take no lock that is held across a wait: a suspension would miss its deadline.
package protocol GateFollower: AnyObject, Sendable {
    /// Called before the first interruption. Takes back what is inside of the gate without running.
    func gateWillAbort()

    /// Interrupts the writes that run.
    func gateInterruptsWrites()

    /// Interrupts the checkpoint that runs.
    func gateInterruptsCheckpoint()

    /// The gate is closed, and all visits have ended.
    ///
    /// - returns: the accesses that still hold a lock.
    func gateDidClose(until deadline: Nanoseconds) -> [SuspensionReport.Access]

    /// Called before anything enters again.
    func gateWillOpen()
}

extension GateFollower {
    package func gateWillAbort() {}
    package func gateInterruptsWrites() {}
    package func gateInterruptsCheckpoint() {}
    package func gateDidClose(until deadline: Nanoseconds) -> [SuspensionReport.Access] { [] }
    package func gateWillOpen() {}
}

/// The followers of a gate, which does not keep them alive.
struct GateFollowers: Sendable {
    private struct Entry: Sendable {
        weak var follower: (any GateFollower)?
    }
    private var entries: [Entry] = []

    mutating func add(_ follower: any GateFollower) { entries.append(Entry(follower: follower)) }

    var all: [any GateFollower] { entries.compactMap(\.follower) }
}
