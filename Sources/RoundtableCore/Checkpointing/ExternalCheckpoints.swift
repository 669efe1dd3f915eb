import RoundtableKernel
import Synchronization

/// Detects whether another program checkpoints the database instead of its participants (rule K13).
final class ExternalCheckpoints: Sendable {
    private struct State {
        var lastLook: Nanoseconds = 0
        /// When a detected program is assumed to have gone, unless it is detected again.
        var end: Nanoseconds = 0
    }

    /// The name of Litestream's process.
    static let program = "litestream"
    private static let interval: Nanoseconds = 1_000_000_000
    private static let memory: Nanoseconds = 5_000_000_000

    private let databasePath: String
    private let state = Mutex(State())

    init(databasePath: String) { self.databasePath = databasePath }

    /// Call it only when a checkpoint is due, because it may read the system's list of locks. Safe from any thread.
    func isActive(_ block: ControlBlock?, at now: Nanoseconds = MonotonicClock.now) -> Bool {
        if block?.leavesCheckpointsToOthers(at: now) == true { return true }
        let (mustLook, isRemembered) = state.withLock { state in
            let isDue = state.lastLook == 0 || now.subtractingSaturating(state.lastLook) >= Self.interval
            if isDue { state.lastLook = now }
            return (isDue, now < state.end)
        }
        guard mustLook else { return isRemembered }
        let locks = SystemLocks.walLocks(databasePath: databasePath)
        guard locks?.isRead(by: Self.program) == true else { return isRemembered }
        state.withLock { $0.end = now.addingSaturating(Self.memory) }
        return true
    }
}

extension SystemLocks.WalLocks {
    /// Whether a process of this name holds the lock of a read mark.
    func isRead(by program: String) -> Bool { readMarks.keys.contains { ProcessTable.name($0) == program } }
}

extension SharedDatabase {
    /// Lets another program checkpoint instead of the participants, for the next seconds (rule K13). The caller renews this every second as
    /// long as that program runs. Safe from any thread.
    package func leaveCheckpointsToOthers(_ isOn: Bool) {
        let end = isOn ? MonotonicClock.now.addingSaturating(5_000_000_000) : 0
        seat.participant?.block.leaveCheckpointsToOthers(until: end)
    }
}
