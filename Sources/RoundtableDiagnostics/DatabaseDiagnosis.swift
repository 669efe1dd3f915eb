import RoundtableCore

/// What is wrong with a shared database, as far as it can be seen from outside, and what to do about it.
///
/// ``DatabaseDiagnosis/init(ofDatabaseAt:outboxFolder:checking:progress:)`` makes it. It encodes as JSON with the keys listed here.
public struct DatabaseDiagnosis: Codable, Sendable, Equatable {
    /// The path of the database file, with symbolic links resolved.
    public var path: String
    /// The findings, the worst first.
    public var findings: [Finding]
    /// What could not be found out, and why, in plain words.
    public var unknowns: [String]

    /// The worst of the findings; nil when there is none.
    public var severity: SharedDatabase.Severity? { findings.map(\.severity).max() }

    /// What a finding is about. Programs may rely on these names; there may be more of them in a later version.
    public enum Topic: String, Codable, Sendable, CaseIterable {
        /// This SQLite has the WAL-reset bug (``SQLiteVersion/hasWALResetBug``).
        case walResetBug = "wal_reset_bug"
        /// The WAL has more frames than it should, or its file is longer.
        case longWAL = "long_wal"
        /// Much of the WAL is not in the database file, although no read holds it back.
        case notCheckpointed = "not_checkpointed"
        /// SQLite failed on the last checkpoint.
        case checkpointFails = "checkpoint_fails"
        /// A process has been reading one moment for a long time, and holds the WAL back.
        case longRead = "long_read"
        /// The WAL has frames, and there is no `-shm` file.
        case missingWALIndex = "missing_wal_index"
        /// The database has a rollback journal, or its file is empty.
        case notInWALMode = "not_in_wal_mode"
        /// A participant died, and its place has not been cleared yet.
        case deadParticipant = "dead_participant"
        /// A participant is stopped, and was not suspended before; perhaps in the middle of a read or a write.
        case frozenParticipant = "frozen_participant"
        /// A process that is no participant is stopped, and holds SQLite's lock for checkpoints.
        case frozenCheckpointer = "frozen_checkpointer"
        /// The writes of a participant are refused, because it does not know a migration that another program has applied.
        case writesRefused = "writes_refused"
        /// The holder of the write lock takes no turns.
        case strangerWrites = "stranger_writes"
        /// A process that may read holds a lock that keeps writers, checkpoints or participants out (``ObstructingLock``).
        case obstructingLock = "obstructing_lock"
        /// The control block is missing, damaged, of another version, or cannot be read.
        case controlBlock = "control_block"
        /// The database file has more than one name.
        case hardLinks = "hard_links"
        /// A participant has other files open than those that are in their places, because these were replaced, removed or moved.
        case lostFile = "lost_file"
        /// The `-wal` is of another database file than the one that is there, or its database is gone.
        case foreignFiles = "foreign_files"
        /// The database file is mounted by itself, without its folder.
        case singleFileMount = "single_file_mount"
        /// The database file is on a FUSE file system that no other machine is known to change.
        case fuseFileSystem = "fuse_file_system"
        /// The database file is on a network file system.
        case networkFileSystem = "network_file_system"
        /// Files of other libraries that iOS kills a process for, if it is suspended with a lock on one of them, are in the same App Group's
        /// container. Only `roundtable doctor` reports databases of SQLite.
        case otherLocks = "other_locks"
        /// The owner, group or mode of a companion file or of the outbox keeps users of the database out, or lets others in; or this process
        /// cannot open a file.
        case permissions
        /// The disk has less free space than the WAL takes.
        case lowDiskSpace = "low_disk_space"
        /// The system has no inotify instance, or no watch, left for this user. Processes then check four times a second what other
        /// processes have written.
        case noFileWatch = "no_file_watch"
        /// Commands wait in the outbox, and are not applied.
        case commandsWait = "commands_wait"
        /// So many commands wait that senders are, or soon will be, refused.
        case fullOutbox = "full_outbox"
        /// Commands were set aside, and not applied.
        case deadLetters = "dead_letters"
        /// Files in the outbox were no whole commands.
        case damagedCommands = "damaged_commands"
        /// Commands of the outbox are applied to another database, too.
        case sharedOutbox = "shared_outbox"
        /// Commands from another folder are applied to the database, too.
        case secondOutbox = "second_outbox"
        /// A derived table is half built.
        case unfinishedDerivedTable = "unfinished_derived_table"
        /// A derived table does not follow its table.
        case brokenDerivedTable = "broken_derived_table"
        /// Litestream does not replicate the database as it should.
        case replication
        /// A read replica gets no new states.
        case replica
        /// Another machine has taken over as the writer, so nothing is written here any more.
        case fenced
        /// Commands do not get from one machine to another as they should (`roundtable outbox ship`, `roundtable outbox collect`).
        case outboxTravel = "outbox_travel"
        /// Jobs are dead (`JobState.dead`). Only `roundtable doctor` reports it.
        case deadJobs = "dead_jobs"
        /// Jobs wait, and no worker of their queue claims them. Only `roundtable doctor` reports it.
        case jobsWait = "jobs_wait"
        /// Jobs are running whose worker is dead, frozen, or cannot write. Only `roundtable doctor` reports it.
        case lostJobs = "lost_jobs"
        /// The database is encrypted, and its salt is not beside it; perhaps it is kept elsewhere.
        case missingSalt = "missing_salt"
        /// The file of the salt of an encrypted database is damaged.
        case damagedSalt = "damaged_salt"
        /// The file is no database.
        case notADatabase = "not_a_database"
        /// SQLite's check of the content found something.
        case corrupt
    }

    /// One thing that is wrong, or worth knowing.
    public struct Finding: Codable, Sendable, Equatable {
        public var topic: Topic
        public var severity: SharedDatabase.Severity
        /// What is wrong, in plain words.
        public var message: String
        /// The path of the file that the finding is about.
        public var location: String
        /// The processes that cause it; empty when there are none, or they are not known.
        public var processes: [SharingProcess]
        /// What to do.
        public var advice: String

        enum CodingKeys: String, CodingKey {
            case severity, message, processes, advice
            case topic = "id"
            case location = "where"
        }
    }

    /// How much of the content to check.
    public enum Check: Sendable, Hashable {
        /// Nothing is checked. The diagnosis takes a moment, whatever the size of the database.
        case none
        /// [`PRAGMA quick_check`](https://www.sqlite.org/pragma.html#pragma_quick_check): reads the whole file.
        case quick
        /// [`PRAGMA integrity_check`](https://www.sqlite.org/pragma.html#pragma_integrity_check): compares indexes with tables, too.
        case full
    }
}
