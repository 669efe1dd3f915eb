import Synchronization

/// Another program checkpoints instead of the participants (rule K13). Otherwise that program may have to copy the whole database.
extension ControlBlock {
    /// The longest lease of an external checkpointer, in ns.
    package static let longestExternalLease: Nanoseconds = 10_000_000_000

    private var externalLease: UnsafeMutablePointer<Atomic<UInt64>> { word(at: Layout.Header.externalCheckpoints) }

    /// Whether the participants leave checkpoints to another program.
    package func leavesCheckpointsToOthers(at now: Nanoseconds) -> Bool {
        let end = externalLease.pointee.load(ordering: .acquiring)
        // A lease that ends later than any lease can is garbage (rule G2).
        return end > now && end - now <= Self.longestExternalLease
    }

    /// Sets the end of the lease; 0 ends it at once. Called by the participant that supervises the other program, which renews the lease
    /// as long as that program runs.
    package func leaveCheckpointsToOthers(until end: Nanoseconds) {
        externalLease.pointee.store(end, ordering: .releasing)
    }
}
