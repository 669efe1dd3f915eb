import Foundation
import RoundtableKernel

/// What can be seen of a shared database from outside, at one moment.
///
/// It encodes as JSON with the keys listed here; times are seconds, sizes bytes.
public struct DatabaseStatus: Codable, Sendable, Equatable {
    /// The path of the database file, with symbolic links resolved.
    public var path: String
    /// The version of the SQLite library that inspected the database: <https://www.sqlite.org/c3ref/libversion.html>.
    public var sqliteVersion: String
    /// Whether that library has SQLite's WAL-reset bug (``SQLiteVersion/hasWALResetBug``). A database in WAL mode is then safe only as
    /// long as Roundtable alone checkpoints. Other processes may run with another version of the library.
    public var sqliteHasWALResetBug: Bool
    public var journalMode: JournalMode
    /// The page size in bytes; nil for an empty file.
    public var pageSize: Int?
    /// Whether the file is encrypted, except for its first bytes (<doc:Encryption>). Its content is then not known.
    public var isEncrypted: Bool
    public var files: Files
    /// The state of the WAL; nil in rollback-journal mode, and where ``unknowns`` says why.
    public var wal: WALHealth?
    /// The version of the schema; nil where ``unknowns`` says why.
    public var schema: SchemaVersion?
    public var controlBlock: ControlBlockStatus
    /// Control blocks of other layout versions. Programs that were built with another Roundtable use them: they take turns among
    /// themselves, and not with the ``participants``. Empty when there is none.
    public var otherControlBlocks: [OtherControlBlock] = []
    /// All participants, including those that died and whose place has not been cleared yet.
    public var participants: [Participant]
    /// The owner of SQLite's write lock; nil when there is none, or where ``unknowns`` says why.
    public var writeLock: Writer?
    /// The commands that wait for the database, and those that were set aside; nil when there are none, or where ``unknowns`` says why.
    public var outbox: OutboxStatus?
    /// The extensions; nil when there are none, or where ``unknowns`` says why.
    public var extensions: ExtensionsStatus?
    /// What could not be found out, and why, in plain words.
    public var unknowns: [String]

    /// The participant that holds the turn: it writes now, or next.
    public var turnHolder: Participant? { participants.first(where: \.hasTurn) }

    enum CodingKeys: String, CodingKey {
        case path, files, wal, schema, participants, outbox, extensions, unknowns
        case sqliteVersion = "sqlite_version"
        case sqliteHasWALResetBug = "sqlite_has_wal_reset_bug"
        case journalMode = "journal_mode"
        case pageSize = "page_size"
        case isEncrypted = "is_encrypted"
        case controlBlock = "control_block"
        case otherControlBlocks = "other_control_blocks"
        case writeLock = "write_lock"
    }
}

extension DatabaseStatus {
    /// Whether the file is in WAL mode (<https://www.sqlite.org/wal.html>). The file does not show which kind of rollback journal a
    /// connection uses.
    public enum JournalMode: String, Codable, Sendable {
        case wal
        case rollback
    }

    /// Sizes in bytes; nil where there is no such file.
    public struct Files: Codable, Sendable, Equatable {
        public var database: Int
        public var wal: Int?
        public var walIndex: Int?
        public var rollbackJournal: Int?
        /// The size of the salt file of an encrypted database (``FileSaltStore``).
        public var salt: Int?

        enum CodingKeys: String, CodingKey {
            case database, wal, salt
            case walIndex = "wal_index"
            case rollbackJournal = "rollback_journal"
        }
    }

    /// The version of a schema, as far as the database shows it.
    public struct SchemaVersion: Codable, Sendable, Equatable {
        /// [`PRAGMA user_version`](https://www.sqlite.org/pragma.html#pragma_user_version).
        public var userVersion: Int
        /// The migrations that GRDB recorded, in the order they ran; nil when no `DatabaseMigrator` was ever used.
        public var appliedMigrations: [String]?
        /// How many tables there are, virtual ones included, SQLite's own excluded.
        public var tableCount: Int

        enum CodingKeys: String, CodingKey {
            case userVersion = "user_version"
            case appliedMigrations = "applied_migrations"
            case tableCount = "table_count"
        }
    }

    /// Whether the control block can be used.
    public struct ControlBlockStatus: Codable, Sendable, Equatable {
        public enum State: String, Codable, Sendable {
            case usable
            case absent
            case damaged
            /// The system refuses access: ``problem`` says why.
            case unreadable
        }

        public var path: String
        public var state: State
        /// The version of its layout; nil unless it can be used.
        public var layoutVersion: Int?
        /// Why it cannot be used; nil when it can. Without it, participants rely on SQLite's locks alone.
        public var problem: String?

        enum CodingKeys: String, CodingKey {
            case path, state, problem
            case layoutVersion = "layout_version"
        }
    }

    /// A control block of another layout version, beside the same database.
    public struct OtherControlBlock: Codable, Sendable, Equatable {
        public var path: String
        public var layoutVersion: Int
        /// The processes that use it, as far as the system shows which processes live. If empty, the file was left behind, and can be
        /// removed.
        public var pids: [Int32]

        enum CodingKeys: String, CodingKey {
            case path, pids
            case layoutVersion = "layout_version"
        }
    }

    /// One open `SharedDatabase` in one process.
    public struct Participant: Codable, Sendable, Equatable {
        public enum Role: String, Codable, Sendable {
            case readWrite = "read_write"
            case readOnly = "read_only"
            case unknown
        }

        public enum State: String, Codable, Sendable {
            /// It is taking its place.
            case joining
            case present
            /// It is creating or migrating the database, or waits to.
            case settingUp = "setting_up"
            /// It takes no locks, since it may be frozen.
            case suspended
        }

        public enum Liveness: String, Codable, Sendable {
            case alive
            /// The process was stopped by a signal, a debugger, or the system.
            case stopped
            case dead
            /// The system does not tell.
            case unknown
        }

        /// The process id in the process's own pid namespace (pid_namespaces(7)).
        public var pid: Int32
        /// Whether that namespace is another one than that of the inspecting process, as in another container. Whether the participant is
        /// stopped is then not known.
        public var isInOtherPIDNamespace = false
        public var author: String
        public var role: Role
        public var state: State
        public var liveness: Liveness
        public var hasTurn: Bool
        /// How long it has been waiting for its turn; nil when it is not waiting.
        public var waiting: TimeInterval?
        /// How long it has been writing; nil when it is not writing.
        public var writing: TimeInterval?
        /// Where in the code it last began to write; nil when it never did, or when this is not known.
        public var callSite: String?
        public var turnsTaken: Int
        public var longestWait: TimeInterval
        public var joinedAt: Date
        /// The oldest read that is under way, that of a snapshot included; nil when it does not read.
        public var oldestRead: LongLivedRead?

        /// The start time of the process, which distinguishes it from others with the same pid.
        package var startTime: UInt64 = 0
        /// The inode of the folder whose commands it applies; 0: none.
        package var commandsFolder: UInt64 = 0

        enum CodingKeys: String, CodingKey {
            case pid, author, role, state, liveness
            case isInOtherPIDNamespace = "in_other_pid_namespace"
            case hasTurn = "has_turn"
            case waiting = "waiting_s"
            case writing = "writing_s"
            case callSite = "call_site"
            case turnsTaken = "turns_taken"
            case longestWait = "longest_wait_s"
            case joinedAt = "joined_at"
            case oldestRead = "oldest_read"
        }
    }

    /// A read that is under way, or the moment that a ``SharedDatabaseSnapshot`` stays at.
    public struct LongLivedRead: Codable, Sendable, Equatable {
        /// How long it has lasted.
        public var age: TimeInterval
        /// How many frames of the WAL no checkpoint can copy into the database file before it ends; nil where
        /// ``DatabaseStatus/unknowns`` says why.
        public var heldFrames: Int?
        /// Whether it lasts too long, by the default ``LongRead/Limit``: the read should end, the snapshot advance.
        public var isPastLimit: Bool
        /// Where in the code it began; nil when this is not known.
        public var callSite: String?

        enum CodingKeys: String, CodingKey {
            case age = "age_s"
            case heldFrames = "held_frames"
            case isPastLimit = "is_past_limit"
            case callSite = "call_site"
        }
    }

    /// The owner of SQLite's write lock, or another process that a finding names.
    public struct Writer: Codable, Sendable, Equatable {
        /// The process id; that of a participant is in its own pid namespace.
        public var pid: Int32
        /// Whether that namespace is another one than that of the inspecting process.
        public var isInOtherPIDNamespace = false
        /// The author of a participant, the program of a stranger; nil when the system does not tell.
        public var name: String?
        /// Whether it is a participant. Strangers, such as the `sqlite3` shell, do not take turns.
        public var isParticipant: Bool

        enum CodingKeys: String, CodingKey {
            case pid, name
            case isInOtherPIDNamespace = "in_other_pid_namespace"
            case isParticipant = "is_participant"
        }
    }
}

extension DatabaseStatus.Participant {
    /// The participant, as findings name it.
    package var party: DatabaseStatus.Writer {
        DatabaseStatus.Writer(
            pid: pid,
            isInOtherPIDNamespace: isInOtherPIDNamespace,
            name: author,
            isParticipant: true
        )
    }

    /// The author and the pid, as `'app' (pid 17)`.
    package var name: String { "'\(author)' (\(pidText))" }
    package var pidText: String { ProcessTable.description(ofPID: pid, isElsewhere: isInOtherPIDNamespace) }

    /// Whether the process with this pid, as it is seen here, is the participant's.
    func isProcess(_ seen: Int32) -> Bool {
        ProcessTable.isProcess(seen, pid, startTime: startTime, isElsewhere: isInOtherPIDNamespace)
    }
}

extension DatabaseStatus.Writer {
    /// Whether this is the participant. The name is compared, too, because containers often have processes of the same pid.
    func isSame(as participant: DatabaseStatus.Participant) -> Bool {
        (pid, isInOtherPIDNamespace) == (participant.pid, participant.isInOtherPIDNamespace)
            && (name ?? participant.author) == participant.author
    }

    package var pidText: String { ProcessTable.description(ofPID: pid, isElsewhere: isInOtherPIDNamespace) }
}
