/// The failures that acknowledged data survives: a commit, a snapshot file, a command in an outbox.
public enum CommitDurability: String, Sendable, CaseIterable, Codable {
    /// Survives the death of any process at any moment. A power cut may undo or damage what was written last; a database is never damaged.
    case process
    /// Survives a power cut, too: data is synced to the disk before it is acknowledged. On Apple's systems, the drive's cache is emptied for
    /// that (`F_FULLFSYNC`), which takes longer than `fsync`.
    case machine
}
