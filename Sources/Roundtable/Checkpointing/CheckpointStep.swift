import GRDB
import GRDBSQLite
import RoundtableKernel

/// One call of SQLite's checkpoint, in the two ways that keep clear of its WAL-reset bug (`docs/WALRESET.md`).
enum CheckpointStep {
    enum Outcome {
        /// All that there was is in the database file.
        case complete
        /// Readers of older moments keep the rest from being copied.
        case heldUp
        /// Somebody else is at it, or the step was interrupted.
        case refused
        case failed(DatabaseError)

        var isComplete: Bool {
            if case .complete = self { return true }
            return false
        }
    }

    /// Rule K4. Waits for nobody, and holds nobody up. Outside of transactions.
    static func passive(_ db: Database) -> Outcome {
        guard let index = WalIndex(db) else { return .refused }
        var outcome = Outcome.refused
        _ = index.whileWALCannotRestart {
            guard let frames = index.frames else { return }
            guard frames.uncopied > 0 else {
                outcome = .complete
                return
            }
            outcome = checkpoint(db, SQLITE_CHECKPOINT_PASSIVE)
        }
        return outcome
    }

    /// Rule K5. Lets the next writer start the WAL anew, or empties it.
    ///
    /// The connection's busy handler must interrupt the connection before it gives up (`CheckpointConnection`): if the write lock is
    /// somebody else's, SQLite goes on as with PASSIVE, and that is not protected here.
    static func restart(_ db: Database, truncating: Bool) -> Outcome {
        checkpoint(db, truncating ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_RESTART)
    }

    private static func checkpoint(_ db: Database, _ mode: CInt) -> Outcome {
        var frames: CInt = 0
        var copied: CInt = 0
        let code = sqlite3_wal_checkpoint_v2(db.sqliteConnection, "main", mode, &frames, &copied)
        switch code & 0xFF {
        case SQLITE_OK: return copied < frames ? .heldUp : .complete
        // With PASSIVE: of the CKPT lock. Else of readers.
        case SQLITE_BUSY: return mode == SQLITE_CHECKPOINT_PASSIVE ? .refused : .heldUp
        case SQLITE_INTERRUPT: return .refused
        default: return .failed(DatabaseError(resultCode: ResultCode(rawValue: code), message: db.lastErrorMessage))
        }
    }
}
