import Foundation
import GRDB
import RoundtableGate
import RoundtableKernel

/// The checkpoints of a participant that closes the database.
extension Checkpointer {
    /// How long a participant that closes tries again while readers or another checkpoint are in the way.
    static let closingPatience: Nanoseconds = 250_000_000
    private static let closingPause: Nanoseconds = 2_000_000

    /// Whether frames are left that the participant must not leave behind when it closes (rule K11a). Call it on the writer's queue.
    func owesCheckpoint(_ db: Database) -> Bool {
        guard let limits = ownLimits, let index = WalIndex(db), let frames = index.frames else { return false }
        if limits.wantsCheckpoint(frames) { return true }
        return index.framesInFile(ofDatabaseAt: link.path) ?? 0 > limits.longest
    }

    // Rule K11a: A participant with the policy *automatic* that closes and does not empty the WAL makes the step of K4 if one is due by K2,
    // or if the file is longer than 4T frames: after it has left the block, whichever participant is checkpointer, and not while the gate
    // is closed. While T frames or more are left, it tries again for 250 ms; once only, if a pause of K7 runs. Then, if the file is too
    // long and no participant has the turn, one TRUNCATE follows. A step that runs is not cut short, so `close()` takes 330 ms longer at
    // most than the disk needs.

    /// Copies what the participant must not leave behind, because no other participant may be awake to copy it (rule K11a). Call it after
    /// the participant has left the control block.
    func settle(_ block: ControlBlock?) {
        guard let limits = ownLimits, !external.isActive(block) else { return }
        let deadline = MonotonicClock.now + Self.closingPatience
        while !gate.isClosed {
            let isSettled: Bool
            do throws(CheckpointLink.Failure) {
                // This waits for a step of this participant that runs, and which does the same work.
                isSettled = try link.use(until: .max) { connection throws(DatabaseError) in
                    try settleOnce(connection, limits, block)
                }
            } catch {
                if case .cannotOpen(let error) = error { leaveFailure(error, in: block) }
                return
            }
            let now = MonotonicClock.now
            // During a pause, others have found that the obstacle lasts.
            if isSettled || now >= deadline || block?.checkpointPause(at: now) ?? 0 > 0 { return }
            MonotonicClock.sleep(Self.closingPause)
        }
    }

    /// - returns: whether nothing is left to do.
    private func settleOnce(
        _ connection: CheckpointConnection,
        _ limits: CheckpointLimits,
        _ block: ControlBlock?
    ) throws(DatabaseError) -> Bool {
        let outcome = connection.passive()
        switch outcome {
        case .complete, .heldUp:
            block?.count(.checkpoints)
            if case .heldUp(hasCopied: false) = outcome { break }
            block?.setCheckpointFailure(nil)
        case .refused: break
        case .failed(let error): throw error
        }
        guard let frames = connection.frames, frames.uncopied < limits.threshold else { return false }
        // A participant that writes restarts the WAL, and its checkpointer then shortens the file (rule K5c). Writers wait meanwhile, so
        // there is one attempt. The steps before may have taken long enough for a suspension to begin.
        if !gate.isClosed, connection.isFileLong(limits), block?.turnOwner == nil,
            connection.restart(truncating: true, patience: Self.budget).isComplete
        {
            block?.count(.walRestarts)
        }
        return true
    }

    private func leaveFailure(_ error: DatabaseError, in block: ControlBlock?) {
        if error.isSuspension || error.resultCode == .SQLITE_BUSY { return }
        let code = error.extendedResultCode.rawValue
        block?.setCheckpointFailure(.init(time: MonotonicClock.now, code: code, owner: nil))
    }

    // Rule K11: `close()` of a read-write participant leaves the control block, and *then* looks: if no other participant that is alive is
    // there, it makes a TRUNCATE. So of several that close at the same time, the last one to leave finds no other, and leaves an empty WAL.
    // It holds no turn any more; if another connection has WRITE, the step is interrupted. If strangers read from the WAL, it copies what
    // it can within the budget.

    /// Empties the WAL, if possible, when the last participant closes the database (rule K11).
    ///
    /// - returns: whether the WAL is empty.
    func emptyWAL(_ block: ControlBlock?) -> Bool {
        if policy == .external || external.isActive(block) { return false }
        // An empty file needs no connection, which would take longer to open than the rest of the close.
        if let status = try? System.status(ofFileAt: link.path + "-wal"), status.st_size == 0 { return true }
        // If this fails, the next participant empties the WAL.
        let isEmpty = try? link.use(until: MonotonicClock.now + Self.budget) { connection in
            guard let frames = connection.frames else { return false }
            return frames.committed == 0 || connection.restart(truncating: true, patience: Self.budget).isComplete
        }
        return isEmpty ?? false
    }
}
