import RoundtableCore

extension DatabaseDiagnosis {
    /// SQLite reserves the space of `-shm` by one byte in each part of this size.
    private static let wholeBlock = 4096
    /// What the WAL and other programs may take before a user sees a warning.
    private static let littleSpace = 64 << 20

    /// Reports a disk on which too little is free.
    mutating func examineDiskSpace(_ status: DatabaseStatus, _ facts: SystemFacts) {
        guard let free = facts.freeSpace else { return }
        if let wal = status.files.wal, free < wal {
            find(
                .lowDiskSpace,
                .warning,
                "\(free.byteSize) are free on the disk, and the WAL takes \(wal.byteSize).",
                at: status.path + "-wal",
                advice: "Free space: a checkpoint may make the database file longer by as much."
            )
        }
        if status.journalMode == .wal, let block = facts.blockSize, block < Self.wholeBlock, free < Self.littleSpace {
            find(
                .lowDiskSpace,
                .warning,
                """
                \(free.byteSize) are free on a file system with blocks of \(block.byteSize). When it is full, SIGBUS may end any process that has the \
                database open, because SQLite cannot reserve all blocks of -shm there.
                """,
                at: status.path + "-shm",
                advice: """
                    Free space; or move the database to a file system with blocks of \(Self.wholeBlock.byteSize), on which a full disk is an error of \
                    a write.
                    """
            )
        }
    }
}
