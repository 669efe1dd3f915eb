import GRDB
import RoundtableGate
import RoundtableKernel
import Synchronization

/// How the writes of a database ended before it is closed.
package struct Draining: Sendable {
    /// What was interrupted, if the writes did not end by themselves; nil: they did.
    package var suspension: SuspensionReport?
    /// The process that a running write waited for at the end of the grace; nil: none.
    package var obstacle: String?
    /// Why a checkpoint that was due failed.
    package var checkpointFailure: (any Error)?
}

extension SharedDatabase {
    /// Refuses writes that have not begun, for good: they throw ``SharedDatabaseError/shuttingDown(path:)``.
    package func refuseNewWrites() {
        for companion in companions { companion.databaseWillRefuseWrites() }
        gate.refuseNewWrites()
    }

    package var isShuttingDown: Bool { gate.isShuttingDown }

    package var hasClosed: Bool { isClosed.withLock { $0 } }

    /// Lets the writes that run or wait for their turn end, and then makes a checkpoint that is due. It blocks. Call
    /// `refuseNewWrites()` before, and `close()` afterwards.
    ///
    /// Writes that run longer than the grace are interrupted and rolled back, like those of a suspension.
    ///
    /// - parameter grace: the time for the writes.
    package func drain(within grace: Duration) -> Draining {
        var draining = Draining()
        let grace = max(.zero, grace).nanoseconds
        let deadline = MonotonicClock.now.addingSaturating(grace)
        // A write that is interrupted needs some time to roll back.
        let lastCall = deadline.subtractingSaturating(min(grace / 5, 100_000_000))
        if !gate.waitUntilEmpty(until: lastCall) {
            draining.obstacle = otherLockHolder
            let wasSuspended = gate.isToBeClosed
            let suspension = gate.process.suspend(gate, until: deadline)
            draining.suspension = suspension
            // The process may be about to be frozen, or a closure still holds a lock.
            if !wasSuspended, suspension.isReleased { resume() }
        }
        do {
            if case .automatic = options.checkpointing, !gate.isClosed, role == .readWrite, isCheckpointDue {
                try checkpoint(.passive)
            }
        } catch {
            draining.checkpointFailure = error
        }
        return draining
    }

    /// The holder of the write lock, if it is another process or another participant of this one.
    private var otherLockHolder: String? {
        let holder = LockHolder.find(databasePath: path, seat: seat)
        switch holder.party {
        case .participant, .obstruction: return holder.description()
        case .stranger(let pid, _), .reader(let pid, _):
            return pid == ProcessIdentity.current.pid ? nil : holder.description()
        case .unknown: return nil
        }
    }

    private var isCheckpointDue: Bool {
        guard let limits = CheckpointLimits(options.checkpointing), let health = try? walHealth() else { return false }
        return health.committedFrames - health.backfilledFrames >= limits.threshold
    }
}
