import Dispatch
import GRDB
import RoundtableKernel

extension SharedDatabase {
    /// How long a snapshot stays out of the way for a checkpoint that it has asked for, and for one that others may make.
    private static let patience: (asked: Nanoseconds, hoped: Nanoseconds) = (100_000_000, 20_000_000)
    private static let pause: Nanoseconds = 500_000

    /// Lets the WAL begin anew, when it is long (rule O4). On the queue of a snapshot that is between two moments.
    ///
    /// SQLite starts the WAL anew when all of it is in the database file and nobody reads from it. A snapshot that goes from
    /// one moment to the next without a pause always reads from it, a little behind the writers.
    func stepAside(_ db: Database) {
        guard let index = WalIndex(db), let mark = index.header?.mark, Self.isLong(index) else { return }
        // A checkpoint would wait for the write that this is called from.
        guard !Access.isWriting(self), longReads.mayStepAside(at: MonotonicClock.now) else { return }
        let asks = role == .readWrite
        if asks {
            longReads.askForCheckpoint { [writer] done in
                self.onWriterLater(self.waitingWrite()) { db in
                    writer.checkpointWithinTurn(db)
                    done()
                }
            }
        }
        // The writer's queue may wait for this very snapshot: so nothing is waited for without bound.
        let deadline = MonotonicClock.now + (asks ? Self.patience.asked : Self.patience.hoped)
        while index.header?.mark.salt == mark.salt, Self.isLong(index) {
            guard MonotonicClock.now < deadline, !longReads.isParked, !asks || longReads.isAwaitingCheckpoint else {
                return longReads.steppedAsideInVain(at: MonotonicClock.now)
            }
            MonotonicClock.sleep(Self.pause)
        }
    }

    /// Whether there are enough frames for writers to checkpoint within their turn (rule W6), and not all are copied.
    private static func isLong(_ index: WalIndex) -> Bool {
        guard let frames = index.frames else { return false }
        return frames.committed >= AutomaticCheckpoint.limit && frames.backfilled < frames.committed
    }
}
