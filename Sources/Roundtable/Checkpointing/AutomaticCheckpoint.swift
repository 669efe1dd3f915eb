import GRDB
import GRDBSQLite

/// SQLite's automatic checkpoint, moved out of the turn (rule W6).
///
/// SQLite runs it inside the commit that makes the WAL long, so the holder of the turn would sync the database file
/// while everybody waits.
final class AutomaticCheckpoint: @unchecked Sendable {
    // @unchecked: confined to the writer's queue.
    enum Need { case none, afterTurn, withinTurn }

    /// New frames that make a checkpoint worth while; SQLite's own default.
    static let threshold = 1000
    /// Frames in the WAL beyond which the checkpoint keeps other writers waiting: only then can it reach the end of the
    /// WAL, and only from there does SQLite start the WAL anew.
    static let limit = 3 * threshold

    /// As the last commit of this connection left it.
    private var framesInWAL = 0

    /// What the WAL hook tells.
    func noteCommit(framesInWAL: Int) { self.framesInWAL = framesInWAL }

    /// Whether this connection has made an attempt: what the wal-index says of attempts may be recovery's, which counts
    /// all frames as attempted.
    private var hasAttempted = false

    /// Another one takes the place of the connection.
    func connectionDidOpen() {
        framesInWAL = 0
        hasAttempted = false
    }

    /// To be asked outside of transactions.
    func need(_ db: Database) -> Need {
        guard framesInWAL >= Self.threshold else { return .none }
        guard !db.isInsideTransaction, let frames = WalIndex(db)?.frames else { return .none }
        framesInWAL = frames.committed
        // Counted from the last attempt, whoever made it: while one is under way, or held up by a reader, every commit
        // would find the same backlog.
        let done = hasAttempted ? max(frames.attempted, frames.backfilled) : frames.backfilled
        guard frames.committed - done >= Self.threshold else { return .none }
        return frames.committed >= Self.limit ? .withinTurn : .afterTurn
    }

    /// PASSIVE: waits for nobody. That another connection is at it, or that a reader holds it up, is no error: a later
    /// commit asks again. Any other failure shows when that commit, or SQLite at closing, meets it.
    ///
    /// A checkpoint that has read the WAL's header when a writer starts the WAL anew is how SQLite's WAL-reset bug corrupts
    /// databases (SQLite before 3.51.3). So no writer can, from before it begins until it has ended (rule W7).
    func run(_ db: Database) {
        hasAttempted = true
        guard let index = WalIndex(db) else { return }
        _ = index.whileWALCannotRestart {
            guard let frames = index.frames, frames.backfilled < frames.committed else { return }
            _ = sqlite3_wal_checkpoint_v2(db.sqliteConnection, "main", SQLITE_CHECKPOINT_PASSIVE, nil, nil)
        }
    }
}
