import Dispatch
import GRDB
import RoundtableKernel

extension SharedDatabase {
    /// How long a snapshot waits without a read transaction: for a checkpoint that it has requested, and for one that another participant
    /// may make. Both are in nanoseconds.
    private static let patience: (asked: Nanoseconds, hoped: Nanoseconds) = (100_000_000, 20_000_000)
    private static let pause: Nanoseconds = 500_000

    // Rule O4: When the WAL is 2T frames long (K5), a snapshot that advances pauses between two moments, because it would always read from
    // the WAL: a read-write participant asks its own writer for a checkpoint within a turn, and waits up to 100 ms for it; a read-only one
    // waits up to 20 ms for another participant's. If that was in vain, it does not pause again for 50 ms.

    /// Lets SQLite restart the WAL if it is long (rule O4). Call it on the queue of a snapshot that is between two moments.
    ///
    /// SQLite restarts the WAL when all of it is in the database file and no connection reads from it. A snapshot that goes from one
    /// moment to the next without a pause always reads from it, a little behind the writers.
    func stepAside(_ db: Database) {
        guard let index = WalIndex(db), let mark = index.header?.mark, isLong(index) else { return }
        // A checkpoint would wait for the write that this is called from.
        guard !Access.isWriting(self), longReads.mayStepAside(at: MonotonicClock.now) else { return }
        let asks = writer.checkpointer?.limitsAtHand != nil
        if asks {
            longReads.askForCheckpoint { [writer] done in
                self.onWriterLater(self.waitingWrite()) { db in
                    if !db.isInsideTransaction { _ = writer.checkpointer?.stepWithinTurn() }
                    done()
                }
            }
        }
        // The writer's queue may be waiting for this snapshot, so each wait is bounded.
        let deadline = MonotonicClock.now + (asks ? Self.patience.asked : Self.patience.hoped)
        while index.header?.mark.salt == mark.salt, isLong(index) {
            guard MonotonicClock.now < deadline, !longReads.isParked, !asks || longReads.isAwaitingCheckpoint else {
                return longReads.steppedAsideInVain(at: MonotonicClock.now)
            }
            MonotonicClock.sleep(Self.pause)
        }
    }

    /// Whether SQLite should restart the WAL (rule K5).
    private func isLong(_ index: WalIndex) -> Bool {
        guard let frames = index.frames else { return false }
        return (writer.checkpointer?.limitsAtHand ?? .default).wantsRestart(frames)
    }
}
