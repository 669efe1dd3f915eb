import GRDB
import GRDBSQLite

/// One call of SQLite's checkpoint, in the two ways that avoid its WAL-reset bug (`docs/WALRESET.md`).
enum CheckpointStep {
    enum Outcome {
        /// All frames are in the database file.
        case complete
        /// Readers of older snapshots keep the rest from being copied.
        case heldUp(hasCopied: Bool)
        /// Another checkpoint or a writer holds the lock, or the step was interrupted.
        case refused
        case failed(DatabaseError)

        var isComplete: Bool {
            if case .complete = self { return true }
            return false
        }
    }

    // Rule K4: In the background, outside of any turn, the step is PASSIVE, made if more than T/8 frames are left. It is made with the lock
    // of a read mark held (W7), and under that lock only if frames are left. Afterwards all but the newest frames are in the database file,
    // on the disk.

    /// Makes a PASSIVE checkpoint (rule K4). It waits for no other process and delays none. Must be called outside of transactions.
    static func passive(_ db: Database, schema: String = "main") -> Outcome {
        guard db.isWithoutTransaction, let index = WalIndex(db, schema: schema) else { return .refused }
        var outcome = Outcome.refused
        _ = index.whileWALCannotRestart {
            guard let frames = index.frames else { return }
            guard frames.uncopied > 0 else {
                outcome = .complete
                return
            }
            outcome = checkpoint(db, SQLITE_CHECKPOINT_PASSIVE, schema: schema)
        }
        return outcome
    }

    // Rule K5: From 2T frames on, the checkpointer takes a turn, and within it WRITE, with at most T/8 frames left. The step waits until no
    // reader has a mark before the end of the WAL, nor reads the database file alone; makes a PASSIVE; and waits until no reader reads from
    // the WAL. Each wait has a budget of 40 ms. TRUNCATE follows if the file is longer than 4T frames; if WRITE is not available, or the
    // budget is over, it is interrupted in the busy handler, because SQLite would otherwise continue without W7. RESTART would wait for a
    // mark that new readers keep taking.

    /// Copies all frames, and lets the next writer restart the WAL (rule K5). Must be called outside of transactions, with the turn.
    ///
    /// SQLite's RESTART would wait for one reader after another of a mark, even when that mark is not in the way any more. While
    /// readers overlap, it would wait for ever.
    ///
    /// - Parameters:
    ///   - mayContinue: whether to wait a little more for readers. Writers are excluded meanwhile.
    ///   - renew: called between the two waits for readers, each of which may take as long as the longest read.
    static func restart(_ db: Database, mayContinue: () -> Bool, renew: () -> Void) -> Outcome {
        guard db.isWithoutTransaction, let index = WalIndex(db) else { return .refused }
        while true {
            let outcome = index.whileNobodyWrites { () -> Outcome in
                guard let frames = index.frames else { return .refused }
                if frames.uncopied > 0 {
                    // A reader that begins now reads the end of the WAL.
                    while index.isRead(before: frames.committed) || index.isDatabaseFileRead {
                        guard mayContinue() else { return .heldUp(hasCopied: false) }
                    }
                    renew()
                    var outcome = checkpoint(db, SQLITE_CHECKPOINT_PASSIVE)
                    // Another process is checkpointing. Writers stay excluded meanwhile, so that it does not get more frames to copy.
                    while case .refused = outcome, mayContinue() { outcome = checkpoint(db, SQLITE_CHECKPOINT_PASSIVE) }
                    guard outcome.isComplete else { return outcome }
                }
                // A reader that begins now reads the database file.
                while index.isRead() { guard mayContinue() else { return .heldUp(hasCopied: true) } }
                return .complete
            }
            if let outcome { return outcome }
            // A program that takes no turns is writing.
            guard mayContinue() else { return .refused }
        }
    }

    /// Empties the WAL's file, after all frames have been copied and all reads from the WAL have ended.
    ///
    /// The connection's busy handler must interrupt the connection before it gives up (`CheckpointConnection`). If another process
    /// holds the write lock, SQLite otherwise continues as with PASSIVE, which is not protected here.
    static func truncate(_ db: Database) -> Outcome { checkpoint(db, SQLITE_CHECKPOINT_TRUNCATE) }

    private static func checkpoint(_ db: Database, _ mode: CInt, schema: String = "main") -> Outcome {
        var frames: CInt = 0
        var copied: CInt = 0
        let before = WalIndex(db, schema: schema)?.frames?.backfilled
        let code = sqlite3_wal_checkpoint_v2(db.sqliteConnection, schema, mode, &frames, &copied)
        switch code & 0xFF {
        case SQLITE_OK: return copied < frames ? .heldUp(hasCopied: before.map { copied > $0 } ?? false) : .complete
        // With PASSIVE, the CKPT lock is busy. Otherwise, readers are in the way.
        case SQLITE_BUSY: return mode == SQLITE_CHECKPOINT_PASSIVE ? .refused : .heldUp(hasCopied: false)
        case SQLITE_INTERRUPT: return .refused
        default: return .failed(DatabaseError(resultCode: ResultCode(rawValue: code), message: db.lastErrorMessage))
        }
    }
}
