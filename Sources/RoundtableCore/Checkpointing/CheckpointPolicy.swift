extension SharedDatabase {
    /// Which process copies the content of the WAL into the database file, and when
    /// (<https://www.sqlite.org/wal.html#checkpointing>). All participants of a database should use the same policy.
    public enum CheckpointPolicy: Sendable, Hashable {
        /// The participants checkpoint in the background, one at a time. Their commits do not wait for it.
        ///
        /// - parameter threshold: how many frames (pages that transactions wrote) the WAL collects before they are copied. From twice
        ///   as many on, the WAL is restarted. It is at most four times as long, unless a process reads one snapshot of the database
        ///   for long. At least 16.
        case automatic(threshold: Int)
        /// Only ``SharedDatabase/checkpoint(_:waitingForReaders:file:line:)`` checkpoints, and the last participant that closes the
        /// database.
        case manual
        /// Another program checkpoints, such as Litestream. The participants leave the WAL alone, at closing too. Do not call
        /// ``SharedDatabase/checkpoint(_:waitingForReaders:file:line:)`` with this policy.
        case external

        /// The automatic policy with a threshold of 1,000 frames, which is SQLite's default.
        public static let automatic = CheckpointPolicy.automatic(threshold: 1000)
    }
}
