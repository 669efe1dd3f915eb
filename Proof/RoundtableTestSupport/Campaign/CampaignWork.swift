/// What one process does during a campaign of random faults, until it is killed or a command arrives.
package struct CampaignWork: Codable, Sendable {
    package enum Role: String, Codable, Sendable, CaseIterable {
        /// Commits numbered transactions to `entry`, and now and then random statements to the tables of `DerivedTableWorld`.
        case writer
        /// Writes in many tasks, some of which fail, and keeps a `SharedWriteJournal`.
        case sharedWriter
        /// Observes the commits and the last row of `entry`.
        case observer
        /// Consumes the history into a `ConsumerJournal`, and into the table `mirror`.
        case consumer
        /// Owns the outbox, and publishes a snapshot file.
        case owner
        /// Submits commands to the outbox, without opening the database.
        case sender
        /// Reads the database, opened for reading only, and the snapshot file.
        case reader
        /// Makes checkpoints.
        case checkpointer
    }

    /// A defect on purpose. It shows that the campaign notices such a defect.
    package enum Defect: String, Codable, Sendable, CaseIterable {
        /// A writer counts a commit before it begins.
        case acknowledgesEarly
        /// A writer makes every 50th transaction twice, under one number.
        case commitsTwice
        /// An observer ignores the notifications after the first.
        case ignoresNotifications
        /// A consumer skips every 50th change.
        case skipsChanges
        /// The owner applies every 50th command twice.
        case appliesTwice
        /// The writer that is never killed stops to work after 20 commits, and holds the transaction.
        case holdsForever
        /// The processes that are never killed open a descriptor with each round of work, and never close it.
        case leaksDescriptors
        /// The processes that are never killed keep 128 KiB of each round of work.
        case leaksMemory
        /// The processes that are never killed start a thread with each fifth round of work, which never ends.
        case leaksThreads
        /// Writers delete the triggers of a derived table, as a program does that does not keep derived tables.
        case dropsDerivedTableTriggers
        /// The observer that is never killed enters a participant that is dead into the control block, again and again.
        case entersDeadParticipants
        /// A writer counts a transaction that the full disk has refused.
        case acknowledgesOnFullDisk
        /// A writer that has met a full disk never tries again.
        case givesUpOnFullDisk
    }

    package var role: Role
    package var author: String
    /// The path of the database.
    package var path: String
    /// The `ProgressFile` of this process. What it counts depends on the role.
    package var progress: String
    /// The journal of a consumer or of shared writes.
    package var journal: String
    /// A file to which the process appends what must not happen.
    package var problems: String
    /// The snapshot file that the owner publishes.
    package var snapshot: String
    package var seed: UInt64
    /// The longest pause between two rounds of work, in ms.
    package var pauseMilliseconds: Double
    /// The threshold of the automatic checkpoints, in frames.
    package var checkpointThreshold: Int
    /// The first command that a sender submits. It may have been submitted before.
    package var from = 1
    package var defect: Defect?
    /// Whether the file system of the database may be full for a time.
    package var mayFindDiskFull = false

    package init(
        role: Role,
        author: String,
        path: String,
        folder: String,
        seed: UInt64,
        pauseMilliseconds: Double,
        checkpointThreshold: Int
    ) {
        self.role = role
        self.author = author
        self.path = path
        progress = "\(folder)/\(author).progress"
        journal = "\(folder)/\(author).journal"
        problems = "\(folder)/\(author).problems"
        // Beside the database, whose file system may be full.
        snapshot = "\(path).snapshot"
        self.seed = seed
        self.pauseMilliseconds = pauseMilliseconds
        self.checkpointThreshold = checkpointThreshold
    }

    /// The `ProgressFile` of the last row that an observer's `ValueObservation` delivered.
    package var values: String { progress + ".values" }

    /// The `ProgressFile` of the errors of a full disk that this process met.
    package var diskErrors: String { progress + ".disk" }
}
