import Dispatch
import RoundtableKernel
import Synchronization

/// Detects whether another program checkpoints the database instead of its participants (rule K13).
final class ExternalCheckpoints: Sendable {
    private struct State {
        var lastLook: Nanoseconds = 0
        var isLooking = false
        /// When a detected program is assumed to have gone, unless it is detected again.
        var end: Nanoseconds = 0
    }

    /// The name of Litestream's process.
    static let program = "litestream"
    private static let interval: Nanoseconds = 1_000_000_000
    private static let memory: Nanoseconds = 5_000_000_000

    private let state = Mutex(State())
    /// Whether that program reads the WAL. Tests replace it.
    let isReading: Mutex<@Sendable () -> Bool>

    init(databasePath: String) {
        isReading = Mutex { SystemLocks.walLocks(databasePath: databasePath)?.isRead(by: Self.program) == true }
    }

    /// Call it only when a checkpoint is due, because once a second it reads the system's list of locks, which takes a millisecond where many
    /// processes hold some. Safe from any thread.
    ///
    /// - parameter queue: where to read the list, without waiting for that; nil: here. It is read here, too, if what was read last is out of date.
    func isActive(
        _ block: ControlBlock?,
        at now: Nanoseconds = MonotonicClock.now,
        lookingOn queue: DispatchQueue? = nil
    ) -> Bool {
        if block?.leavesCheckpointsToOthers(at: now) == true { return true }
        let (age, mayBegin) = state.withLock { state in
            let age = state.lastLook == 0 ? .max : now.subtractingSaturating(state.lastLook)
            let mayBegin = age >= Self.interval && !state.isLooking
            if mayBegin { state.isLooking = true }
            return (age, mayBegin)
        }
        if let queue, age < Self.memory {
            if mayBegin { queue.async { self.look(at: MonotonicClock.now) } }
        } else if age >= Self.interval {
            look(at: now)
        }
        return state.withLock { now < $0.end }
    }

    private func look(at now: Nanoseconds) {
        let isReading = isReading.withLock { $0 }()
        state.withLock { state in
            state.lastLook = now
            state.isLooking = false
            if isReading { state.end = now.addingSaturating(Self.memory) }
        }
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
