import RoundtableKernel

/// How long to pause after failed attempts at a checkpoint (rule K7).
struct CheckpointPauses {
    /// What held up an attempt.
    enum Obstacle {
        case readers
        /// Another checkpoint, or a write by a program that takes no turns.
        case others
        /// An error of SQLite, for example because the disk is full.
        case failure
        /// The connection for checkpoints cannot be opened, or the wal-index header is being written.
        case connection

        /// The number of failed attempts before other participants pause too. Another checkpoint ends soon unless it is frozen, and
        /// holding the turn until then keeps the WAL from growing.
        fileprivate var grace: Int {
            switch self {
            case .readers, .failure: 2
            case .others: 8
            case .connection: 0
            }
        }
    }

    /// The pauses of this participant while there are no commits.
    static let backoff = Backoff(.milliseconds(25), upTo: .seconds(30))

    /// The number of failed attempts in a row.
    private var failures = 0
    /// When the pause of this participant ends. It can differ from the shared one, because only this participant's connection may be
    /// at fault.
    private var ownEnd: Nanoseconds = 0
    /// When the pause of all participants ends, for use without a control block.
    private var sharedEnd: Nanoseconds = 0

    var isHeldUp: Bool { failures > 0 }

    /// Whether writers should be kept waiting for readers to end.
    ///
    /// - parameter isOldReadShown: whether a participant shows a read that has lasted longer than such a wait could. The age of reads
    ///   that are not shown is unknown, so after ten failed attempts only every eighth attempt waits.
    func isWorthWaiting(_ isOldReadShown: @autoclosure () -> Bool) -> Bool {
        if failures <= Obstacle.readers.grace { return true }
        return (failures < 10 || failures % 8 == 0) && !isOldReadShown()
    }

    /// The pause of this participant after the failed attempts so far, in ns.
    var own: Nanoseconds { Self.backoff.pause(after: failures - Obstacle.readers.grace) }

    /// Whether all participants should pause.
    func isShared(at now: Nanoseconds, _ block: ControlBlock?) -> Bool {
        (block?.checkpointPause(at: now) ?? sharedEnd.subtractingSaturating(now)) > 0
    }

    /// Whether this participant should pause.
    func isOwn(at now: Nanoseconds, _ block: ControlBlock?) -> Bool { ownEnd > now || isShared(at: now, block) }

    mutating func lengthen(at now: Nanoseconds, _ obstacle: Obstacle, _ block: ControlBlock?) {
        failures += 1
        ownEnd = now + min(own, ControlBlock.longestCheckpointPause)
        guard obstacle != .connection, failures > obstacle.grace else { return }
        sharedEnd = ownEnd
        block?.setCheckpointPause(until: ownEnd)
    }

    mutating func end(_ block: ControlBlock?) {
        self = CheckpointPauses()
        block?.setCheckpointPause(until: 0)
    }
}
