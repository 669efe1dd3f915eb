/// What is wrong with a shared database, as far as it can be seen from outside, and what to do about it.
///
/// ``SharedDatabase/diagnose(databaseAt:checking:progress:)`` makes it. It encodes as JSON with the keys listed here.
public struct Diagnosis: Codable, Sendable, Equatable {
    /// The path of the database file, with symbolic links resolved.
    public var path: String
    /// The worst first.
    public var findings: [Finding]
    /// What could not be found out, and why, in plain words.
    public var unknowns: [String]

    /// The worst of the findings; nil when there is none.
    public var severity: Severity? { findings.map(\.severity).max() }

    public enum Severity: String, Codable, Sendable, Comparable, CaseIterable {
        /// Good to know. Nothing is to be done now.
        case note
        /// Something gets slow, or long, or is at risk.
        case warning
        /// Somebody is kept out, or data are at risk now.
        case error

        public static func < (left: Severity, right: Severity) -> Bool {
            allCases.firstIndex(of: left)! < allCases.firstIndex(of: right)!
        }
    }

    /// What a finding is about. Programs may rely on these names; there may be more of them in a later version.
    public enum Topic: String, Codable, Sendable, CaseIterable {
        /// This SQLite has the WAL-reset bug (``SQLiteVersion/hasWALResetBug``).
        case walResetBug = "wal_reset_bug"
        /// The WAL has more frames than it should, or its file is longer.
        case longWAL = "long_wal"
        /// Much of the WAL is not in the database file, and nobody is in the way.
        case notCheckpointed = "not_checkpointed"
        /// SQLite failed on the last checkpoint.
        case checkpointFails = "checkpoint_fails"
        /// Somebody reads one moment for long, and holds the WAL back.
        case longRead = "long_read"
        /// The WAL has frames, and there is no `-shm` file.
        case missingWALIndex = "missing_wal_index"
        case notInWALMode = "not_in_wal_mode"
        /// A participant died, and nobody has cleared its place.
        case deadParticipant = "dead_participant"
        /// A participant is stopped, and was not suspended before; perhaps in the middle of a read or a write.
        case frozenParticipant = "frozen_participant"
        /// Who is no participant is stopped, and holds SQLite's lock for checkpoints.
        case frozenCheckpointer = "frozen_checkpointer"
        /// Who holds the write lock takes no turns.
        case strangerWrites = "stranger_writes"
        /// The control block is missing, damaged, of another version, or cannot be read.
        case controlBlock = "control_block"
        case hardLinks = "hard_links"
        case networkFileSystem = "network_file_system"
        /// Files that some may use and others not.
        case permissions
        case lowDiskSpace = "low_disk_space"
        /// The system has no inotify instance, or no watch, left for this user: processes look for what others write four times a second.
        case noFileWatch = "no_file_watch"
        /// Commands wait in the outbox, and nobody applies them.
        case commandsWait = "commands_wait"
        /// So many commands wait that senders are, or soon will be, refused.
        case fullOutbox = "full_outbox"
        /// Commands were set aside.
        case deadLetters = "dead_letters"
        /// Files in the outbox were no whole commands.
        case damagedCommands = "damaged_commands"
        /// Commands of the outbox are applied to another database, too.
        case sharedOutbox = "shared_outbox"
        /// Commands from another folder are applied to the database, too.
        case secondOutbox = "second_outbox"
        /// An extension is half built.
        case unfinishedExtension = "unfinished_extension"
        /// An extension does not follow its table.
        case brokenExtension = "broken_extension"
        /// The database is encrypted, and its salt is not beside it; perhaps it is kept elsewhere.
        case missingSalt = "missing_salt"
        /// The file of the salt of an encrypted database is damaged.
        case damagedSalt = "damaged_salt"
        /// The file is no database.
        case notADatabase = "not_a_database"
        /// SQLite's check of the content found something.
        case corrupt
    }

    public struct Finding: Codable, Sendable, Equatable {
        public var topic: Topic
        public var severity: Severity
        public var what: String
        /// The path of the file that it is about.
        public var location: String
        /// Whose doing it is; empty when it is nobody's, or cannot be told.
        public var who: [Party]
        /// What to do.
        public var next: String

        enum CodingKeys: String, CodingKey {
            case severity, what, who, next
            case topic = "id"
            case location = "where"
        }
    }

    /// A process: a participant, or a stranger.
    public typealias Party = DatabaseStatus.Writer

    /// How much of the content to check.
    public enum Check: Sendable, Hashable {
        /// Nothing: to look takes a moment, whatever the database's size.
        case none
        /// [`PRAGMA quick_check`](https://www.sqlite.org/pragma.html#pragma_quick_check): reads the whole file.
        case quick
        /// [`PRAGMA integrity_check`](https://www.sqlite.org/pragma.html#pragma_integrity_check): compares indexes with tables, too.
        case full
    }
}
