/// The numbers of frames in the WAL from which each kind of checkpoint is made.
package struct CheckpointLimits: Sendable, Equatable {
    /// The number of frames left to copy from which a checkpoint begins (rule K2).
    package let threshold: Int
    /// The limits that are assumed for participants whose policy is not known.
    package static let `default` = CheckpointLimits(threshold: 1000)

    private init(threshold: Int) { self.threshold = threshold }

    /// Returns nil if the policy makes checkpoints only on request or not at all.
    init?(_ policy: SharedDatabase.CheckpointPolicy) {
        guard case .automatic(let threshold) = policy else { return nil }
        // The limits that are multiples of the threshold must not overflow.
        self.threshold = min(max(16, threshold), Int(UInt32.max))
    }

    /// The length of the WAL from which a checkpoint lets it be restarted (rule K5).
    var restart: Int { 2 * threshold }
    /// The length of the WAL from which a writer checkpoints within its turn (rule K6).
    var need: Int { 3 * threshold }
    /// The length that the WAL should not exceed. A longer file is truncated.
    package var longest: Int { 4 * threshold }
    /// A file that exceeds `longest` by more than this many frames is cut in pieces of this many, because the system needs time to
    /// free them.
    var piece: Int { 32 * threshold }
    /// At most this many frames are left to be copied within the turn.
    var few: Int { threshold / 8 }

    func wantsCheckpoint(_ frames: WalIndex.Frames) -> Bool {
        frames.uncopied >= threshold || wantsRestart(frames)
    }

    /// Whether a writer must checkpoint within its turn (rule K6).
    func needsWriter(_ frames: WalIndex.Frames) -> Bool {
        frames.committed >= need && frames.uncopied > 0
    }

    func wantsRestart(_ frames: WalIndex.Frames) -> Bool {
        frames.committed >= restart && frames.uncopied > 0
    }
}
