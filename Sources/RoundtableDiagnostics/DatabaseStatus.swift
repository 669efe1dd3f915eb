import Foundation
import RoundtableCore

/// What can be seen of a shared database from outside, at one moment.
///
/// It encodes as JSON with the keys listed here. Durations are seconds, and sizes bytes. Dates are encoded as the encoder is told: decode
/// the output of `roundtable status --json` with `dateDecodingStrategy = .iso8601`.
public struct DatabaseStatus: Codable, Sendable, Equatable {
    /// The path of the database file, with symbolic links resolved.
    public var path: String
    /// The version of the SQLite library that inspected the database: <https://www.sqlite.org/c3ref/libversion.html>.
    package var sqliteVersion: String
    /// Whether that library has SQLite's WAL-reset bug (``SQLiteVersion/hasWALResetBug``). A database in WAL mode is then safe only as
    /// long as Roundtable alone checkpoints. Other processes may run with another version of the library.
    package var sqliteHasWALResetBug: Bool
    package var journalMode: JournalMode
    /// The page size in bytes; nil for an empty file.
    package var pageSize: Int?
    /// Whether the file is encrypted, except for its first bytes (<doc:EncryptedDatabases>). Its content is then not known.
    package var isEncrypted: Bool
    package var files: Files
    /// The state of the WAL; nil in rollback-journal mode, and where ``unknowns`` says why.
    public var wal: WALHealth?
    /// The version of the schema; nil where ``unknowns`` says why.
    package var schema: SchemaVersion?
    package var controlBlock: ControlBlockStatus
    /// Control blocks of other layout versions. Programs that were built with another Roundtable use them: they take turns among
    /// themselves, and not with the ``participants``. Empty when there is none.
    package var otherControlBlocks: [OtherControlBlock] = []
    /// All participants, including those that died and whose place has not been cleared yet.
    public var participants: [ParticipantStatus] = []
    /// The holder of SQLite's write lock; nil when there is none, or where ``unknowns`` says why.
    public var writeLock: SharingProcess?
    /// The read locks that keep writers, checkpoints or participants out; nil when there are none, or where ``unknowns`` says why.
    public var obstructingLocks: [ObstructingLock]?
    /// The commands that wait for the database, and those that were set aside; nil when there are none, or where ``unknowns`` says why.
    public var outbox: OutboxStatus?
    /// The derived tables; nil when there are none, or where ``unknowns`` says why.
    package var derivedTables: DerivedTablesStatus?
    /// The roles that participants have, or had; nil when there are none, or where ``unknowns`` says why.
    public var roles: [RoleStatus]?
    /// The replication of the database by Litestream; nil when it is not replicated.
    package var replication: ReplicationStatus?
    /// What this database follows, if it is a read replica; nil when it is none.
    public var replica: ReplicaStatus?
    /// The machine that has taken over as the writer; nil when the database is not fenced.
    package var fence: FenceStatus?
    /// The ways of the outbox's commands from and to other machines; nil when there are none.
    package var outboxTravel: [OutboxTravelStatus]?
    /// What could not be found out, and why, in plain words.
    public var unknowns: [String] = []
    /// What SQLite says of a schema that it cannot read because the file is damaged. Not in JSON.
    package var damage: String?

    /// The participant that holds the turn: it writes now, or next.
    public var turnHolder: ParticipantStatus? { participants.first(where: \.hasTurn) }

    enum CodingKeys: String, CodingKey {
        case path, files, wal, schema, participants, outbox, roles, replication, replica, fence, unknowns
        case sqliteVersion = "sqlite_version"
        case sqliteHasWALResetBug = "sqlite_has_wal_reset_bug"
        case journalMode = "journal_mode"
        case pageSize = "page_size"
        case isEncrypted = "is_encrypted"
        case controlBlock = "control_block"
        case derivedTables = "derived_tables"
        case otherControlBlocks = "other_control_blocks"
        case outboxTravel = "outbox_travel"
        case writeLock = "write_lock"
        case obstructingLocks = "obstructing_locks"
    }
}

extension DatabaseStatus {
    /// Whether the file is in WAL mode (<https://www.sqlite.org/wal.html>). The file does not show which kind of rollback journal a
    /// connection uses.
    package enum JournalMode: String, Codable, Sendable {
        case wal
        case rollback
    }

    /// Sizes in bytes; nil where there is no such file.
    package struct Files: Codable, Sendable, Equatable {
        package var database: Int
        package var wal: Int?
        package var walIndex: Int?
        package var rollbackJournal: Int?
        /// The size of the salt file of an encrypted database (``FileSaltStore``).
        package var salt: Int?

        enum CodingKeys: String, CodingKey {
            case database, wal, salt
            case walIndex = "wal_index"
            case rollbackJournal = "rollback_journal"
        }
    }

    /// The version of a schema, as far as the database shows it.
    package struct SchemaVersion: Codable, Sendable, Equatable {
        /// [`PRAGMA user_version`](https://www.sqlite.org/pragma.html#pragma_user_version).
        package var userVersion: Int
        /// The migrations that GRDB recorded, in the order they ran; nil when no `DatabaseMigrator` was ever used.
        package var appliedMigrations: [String]?
        /// How many tables the app has, virtual ones included. SQLite's own, Roundtable's, and that of GRDB's migrations are not counted.
        package var tableCount: Int
        /// How many tables Roundtable keeps in the database; nil in a status that an older version encoded.
        package var roundtableTableCount: Int?

        enum CodingKeys: String, CodingKey {
            case userVersion = "user_version"
            case appliedMigrations = "applied_migrations"
            case tableCount = "table_count"
            case roundtableTableCount = "roundtable_table_count"
        }
    }

    /// Whether the control block can be used.
    package struct ControlBlockStatus: Codable, Sendable, Equatable {
        package enum State: String, Codable, Sendable {
            case usable
            case absent
            case damaged
            /// The system refuses access: ``problem`` says why.
            case unreadable
        }

        package var path: String
        package var state: State
        /// The version of its layout; nil unless it can be used.
        package var layoutVersion: Int?
        /// Why it cannot be used; nil when it can. Without it, participants rely on SQLite's locks alone.
        package var problem: String?

        enum CodingKeys: String, CodingKey {
            case path, state, problem
            case layoutVersion = "layout_version"
        }
    }

    /// A control block of another layout version, beside the same database.
    package struct OtherControlBlock: Codable, Sendable, Equatable {
        package var path: String
        package var layoutVersion: Int
        /// The processes that use it, as far as the system shows which processes live. If empty, the file was left behind, and can be
        /// removed.
        package var pids: [Int32]

        enum CodingKeys: String, CodingKey {
            case path, pids
            case layoutVersion = "layout_version"
        }
    }
}
