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

    /// Rule K5. Has everything copied, and lets the next writer start the WAL anew. Outside of transactions, with the turn.
    ///
    /// SQLite's RESTART would wait for one reader after another of a mark, even when that mark is not in the way any more, and so for ever while
    /// readers overlap.
    ///
    /// - Parameters:
    ///   - goesOn: whether to wait a little more for readers. Nobody writes meanwhile.
    ///   - renew: called between the two waits for readers, each of which may take as long as the longest read.
    static func restart(_ db: Database, goesOn: () -> Bool, renew: () -> Void) -> Outcome {
        guard db.isWithoutTransaction, let index = WalIndex(db) else { return .refused }
        while true {
            let outcome = index.whileNobodyWrites { () -> Outcome in
                guard let frames = index.frames else { return .refused }
                if frames.uncopied > 0 {
                    // Whoever begins to read now, reads the end of the WAL.
                    while index.isRead(before: frames.committed) || index.isDatabaseFileRead {
                        guard goesOn() else { return .heldUp }
                    }
                    renew()
                    var outcome = checkpoint(db, SQLITE_CHECKPOINT_PASSIVE)
                    // Somebody else is at it, and not to be held up by more to copy.
                    while case .refused = outcome, goesOn() { outcome = checkpoint(db, SQLITE_CHECKPOINT_PASSIVE) }
                    guard outcome.isComplete else { return outcome }
                }
                // Whoever begins to read now, reads the database file.
                while index.isRead() { guard goesOn() else { return .heldUp } }
                return .complete
            }
            if let outcome { return outcome }
            // A stranger, who takes no turns.
            guard goesOn() else { return .refused }
        }
    }

    /// Empties the file of the WAL, when everything is copied and nobody reads from it: else, that is waited for.
    ///
    /// The connection's busy handler must interrupt the connection before it gives up (`CheckpointConnection`): if the write lock is
    /// somebody else's, SQLite goes on as with PASSIVE, and that is not protected here.
    static func truncate(_ db: Database) -> Outcome { checkpoint(db, SQLITE_CHECKPOINT_TRUNCATE) }

    private static func checkpoint(_ db: Database, _ mode: CInt, schema: String = "main") -> Outcome {
        var frames: CInt = 0
        var copied: CInt = 0
        let code = sqlite3_wal_checkpoint_v2(db.sqliteConnection, schema, mode, &frames, &copied)
        switch code & 0xFF {
        case SQLITE_OK: return copied < frames ? .heldUp : .complete
        // With PASSIVE: of the CKPT lock. Else of readers.
        case SQLITE_BUSY: return mode == SQLITE_CHECKPOINT_PASSIVE ? .refused : .heldUp
        case SQLITE_INTERRUPT: return .refused
        default: return .failed(DatabaseError(resultCode: ResultCode(rawValue: code), message: db.lastErrorMessage))
        }
    }
}
