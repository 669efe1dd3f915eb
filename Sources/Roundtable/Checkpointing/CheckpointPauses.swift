import RoundtableKernel

/// How long to leave it at that after attempts in vain (rule K7).
struct CheckpointPauses {
    /// The first one; each is twice as long as the one before.
    static let shortest: Nanoseconds = 25_000_000
    /// The longest that this participant waits by itself, while nobody commits.
    static let longest: Nanoseconds = 30_000_000_000

    /// Attempts in vain, one after the other.
    private(set) var vain = 0
    /// For those who have no control block to say so.
    private var until: Nanoseconds = 0

    var isHeldUp: Bool { vain > 0 }

    /// How long this participant waits by itself, as things are.
    var own: Nanoseconds { min(Self.longest, Self.shortest << UInt64(min(max(vain - 1, 0), 20))) }

    /// How long an attempt is to be put off.
    func remaining(at now: Nanoseconds, _ block: ControlBlock?) -> Nanoseconds {
        block?.checkpointPause(at: now) ?? until.subtractingSaturating(now)
    }

    mutating func lengthen(at now: Nanoseconds, _ block: ControlBlock?) {
        vain += 1
        until = now + min(own, ControlBlock.longestCheckpointPause)
        block?.setCheckpointPause(until: until)
    }

    mutating func end(_ block: ControlBlock?) {
        vain = 0
        until = 0
        block?.setCheckpointPause(until: 0)
    }
}
