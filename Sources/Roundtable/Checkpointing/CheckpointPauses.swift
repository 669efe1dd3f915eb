import RoundtableKernel

/// How long to leave it at that after attempts in vain (rule K7).
struct CheckpointPauses {
    /// What was in the way.
    enum Obstacle {
        case readers
        /// Another checkpoint, or a write that takes no turns.
        case others
        /// SQLite fails: the disk is full, say.
        case failure
        /// It cannot be opened.
        case connection

        /// So many attempts in vain do not count. Who is at it, is done soon, and meanwhile no one should make the WAL longer; unless it is frozen.
        fileprivate var grace: Int {
            switch self {
            case .readers, .failure: 2
            case .others: 8
            case .connection: 0
            }
        }
    }

    /// The first one; each is twice as long as the one before.
    static let shortest: Nanoseconds = 25_000_000
    /// The longest that this participant waits by itself, while nobody commits.
    static let longest: Nanoseconds = 30_000_000_000

    /// Attempts in vain, one after the other.
    private var vain = 0
    /// Of this participant: its connection may be what is wrong.
    private var ownEnd: Nanoseconds = 0
    /// Of all, for those who have no control block to say so.
    private var sharedEnd: Nanoseconds = 0

    var isHeldUp: Bool { vain > 0 }

    /// Whether readers are worth keeping everybody waiting for.
    ///
    /// - parameter isOldReadShown: whether a participant has been reading for longer than that could take. Of those who show nothing, it is
    ///   not known: so after some attempts, only some wait.
    func isWorthWaiting(_ isOldReadShown: @autoclosure () -> Bool) -> Bool {
        if vain <= Obstacle.readers.grace { return true }
        return (vain < 10 || vain % 8 == 0) && !isOldReadShown()
    }

    /// How long this participant waits by itself, as things are.
    var own: Nanoseconds {
        min(Self.longest, Self.shortest << UInt64(min(max(vain - Obstacle.readers.grace - 1, 0), 20)))
    }

    /// Whether anybody should leave it at that.
    func isShared(at now: Nanoseconds, _ block: ControlBlock?) -> Bool {
        (block?.checkpointPause(at: now) ?? sharedEnd.subtractingSaturating(now)) > 0
    }

    /// Whether this participant should.
    func isOwn(at now: Nanoseconds, _ block: ControlBlock?) -> Bool { ownEnd > now || isShared(at: now, block) }

    mutating func lengthen(at now: Nanoseconds, _ obstacle: Obstacle, _ block: ControlBlock?) {
        vain += 1
        ownEnd = now + min(own, ControlBlock.longestCheckpointPause)
        guard obstacle != .connection, vain > obstacle.grace else { return }
        sharedEnd = ownEnd
        block?.setCheckpointPause(until: ownEnd)
    }

    mutating func end(_ block: ControlBlock?) {
        self = CheckpointPauses()
        block?.setCheckpointPause(until: 0)
    }
}
