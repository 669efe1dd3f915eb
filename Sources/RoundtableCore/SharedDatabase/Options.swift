import Foundation
import GRDB
import RoundtableGate
import RoundtableKernel

extension SharedDatabase {
    /// How a participant opens, waits and writes. The defaults suit an app and its extensions. A value below the smallest
    /// sensible one counts as that one.
    public struct Options: Sendable {
        /// The maximum number of open reader connections. Further reads wait until one is free. At least 1.
        public var maximumReaderCount = 5

        /// How long a write waits for its turn and for SQLite's write lock before it fails with `SQLITE_BUSY`. Reads wait as long
        /// for the rare locks that block readers ([when WAL returns
        /// SQLITE_BUSY](https://www.sqlite.org/wal.html#sometimes_queries_return_sqlite_busy_in_wal_mode)).
        ///
        /// If this is not a timeout, creating and migrating the database wait for ``setupTimeout``.
        public var busyMode: BusyMode = .timeout(defaultBusyTimeout)

        /// How long opening waits for another process that is creating or migrating the database.
        public var setupTimeout: Duration = .seconds(60)

        /// Whether opening creates the folders above the database that are missing. The default is false: a missing folder is often a wrong
        /// path.
        public var createsParentFolders = false

        /// Which participant goes first when several wait to write. A single write can have another priority.
        public var priority: TurnPriority = .default

        /// How long this participant may continue to write, transaction after transaction, while other participants wait. The default
        /// is 2 ms, the maximum 1 s. The slice is only checked between transactions, so it never cuts a transaction short. Waiters honour it, even
        /// if their ``patience`` is shorter.
        public var slice: Duration = .nanoseconds(TurnSettings.defaultSlice)

        /// How long a wait lasts without any progress before this participant checks whether the holder of the turn is dead or
        /// frozen. The default is 100 ms, the minimum 1 ms.
        public var patience: Duration = .nanoseconds(TurnSettings.defaultPatience)

        /// When this participant begins to follow the commits of other processes.
        public var observation: Observation = .onDemand

        /// Which process copies the content of the WAL into the database file, and when.
        public var checkpointing: CheckpointPolicy = .automatic

        /// Which commits survive a power cut. Whatever you choose, a committed transaction survives the death of any process, and a power
        /// cut does not corrupt the database.
        ///
        /// This is [`PRAGMA synchronous`](https://www.sqlite.org/pragma.html#pragma_synchronous) of the writer connection. The default,
        /// `process`, is `NORMAL`, as for GRDB's `DatabasePool`. With `machine`, it is `FULL`, which costs one sync for each commit, and on
        /// Apple's systems also [`PRAGMA fullfsync`](https://www.sqlite.org/pragma.html#pragma_fullfsync), which empties the drive's cache.
        public var durability = CommitDurability.process

        /// Whether asynchronous writes of this participant that wait at the same time share a transaction. Each still has a result or an
        /// error of its own, and returns once it is committed. See <doc:WritesAndCheckpoints#Shared-commits>.
        public var sharesCommits = true

        /// The limits for a snapshot that stays at one moment. A snapshot of this participant that exceeds them is reported (the event
        /// `longRead`, with a ``LongRead``), once for each such moment: when its age passes the limit, when it is found to hold back
        /// more frames than the limit, or when it has held up a checkpoint of this or another participant.
        ///
        /// The limits are checked with each use of a snapshot and each write of this participant. An idle process checks when the
        /// age passes the limit.
        public var longReadLimit = LongRead.Limit()

        /// The maximum age of a snapshot's moment. At least 1 ms. nil, the default: there is no limit.
        ///
        /// A snapshot that becomes older is ended, whatever it is doing: its running statement is interrupted, and its next use
        /// fails with `SQLITE_ABORT` until `advance()` moves it to a new moment.
        ///
        /// This guards against forgotten snapshots, which would let the WAL grow without bound. Choose several times the duration
        /// of your longest export.
        public var maximumSnapshotAge: Duration?

        /// What a suspended database releases. The default, ``SuspensionPolicy/writeLocks``, is for databases in WAL mode: writes stop, and
        /// reads continue, also those that begin while the database is suspended.
        public var suspensionPolicy: SuspensionPolicy = .writeLocks

        /// What a write or an opening does while the database is suspended. nil, the default: async functions and functions that
        /// return immediately wait, and blocking functions fail. Reads have no such choice: they continue with
        /// ``SuspensionPolicy/writeLocks``, and with ``SuspensionPolicy/everything`` they do what this does by default.
        public var whileSuspended: WhileSuspended?

        /// How long the running write may continue when a suspension has no deadline: after GRDB's notification, and at the end of a
        /// protected access for which the system gave no assertion.
        public var suspensionGrace: Duration = .milliseconds(40)

        /// What this participant does when another program applies migrations that this program does not know, while this
        /// participant has the database open. Participants may use different policies. The policy has no effect for a schema
        /// without migrations. See <doc:OpeningAndMigrating>.
        ///
        /// That the database becomes newer, and that this ends, is reported (the event `schema`, with a ``SchemaEvent``). The next
        /// access detects the change. A participant that observes the database detects it immediately.
        public var newerSchemaPolicy: NewerSchemaPolicy = .refuseWrites

        /// How the database is encrypted (<doc:EncryptedDatabases>). nil, the default: it is not encrypted.
        public var encryption: DatabaseEncryption?

        /// The options of features, and of what few databases have.
        package var features = FeatureValues()

        /// Whether this participant is the one that may write to a read replica (rule Q2).
        package var followsOther = false

        /// Called with each event on the thread that reports it. For tests.
        package var eventProbe: (@Sendable (any ReportedEvent) -> Void)?

        /// The reporter of the opened database.
        package internal(set) var reporter = EventReporter.none

        /// Ends the opening when its task is cancelled.
        var cancellation: OpeningCancellation?

        /// The keying of the opened database, determined once.
        var keying: Keying?

        /// The files of the opened database; nil before it is opened.
        var files: DatabaseFiles?

        /// The role of the participant that is opened with these options.
        var role = Role.readWrite

        /// The suspension state of the process. Tests use their own.
        package var process = ProcessSuspension.shared

        #if canImport(Darwin)
            /// The data protection class of the database file and its `-wal`, on devices that lock. Each participant that opens the
            /// database for writing sets it, so all of them should use the same class. Files that are mapped into memory (`-shm`, the
            /// control block) get it, too, if it is not stricter than `.completeUntilFirstUserAuthentication`, and else that one.
            ///
            /// nil, the default: the database file keeps its class, and its companion files get the same. New files have the
            /// class of the app's entitlement, or `.completeUntilFirstUserAuthentication`. The latter is the right class for a
            /// shared database, because processes that are woken while the device is locked can use it.
            ///
            /// With `.complete`, `.completeUnlessOpen` and `.completeWhenUserInactive` they cannot: their accesses fail with
            /// `SQLITE_IOERR` or a similar error. Choose these classes only if no process uses the database while the device is locked.
            public var fileProtection: FileProtectionType?
        #endif

        /// Everything else that GRDB can be configured with: custom functions, collations, tracing, labels, foreign
        /// keys, quality of service.
        ///
        /// Roundtable sets `busyMode`, `journalMode` and `maximumReaderCount` itself, and ignores their values here. Opening for writing
        /// throws ``SharedDatabaseError/readOnlyConfiguration(path:)`` if `readonly` is set: call `openReadOnly`, which sets it.
        public var configuration = Configuration()

        public init() {}
    }

    /// Which write goes first when several participants wait to write: ``Options/priority``, or the parameter of a write. Waiting raises a
    /// priority by one level every 100 ms, so no participant waits for ever.
    public enum TurnPriority: UInt8, Sendable, CaseIterable, Codable {
        /// A user is waiting for the result.
        case interactive = 0
        case `default` = 1
        /// A delay goes unnoticed: synchronization, indexing, maintenance.
        case background = 2
    }

    /// When a participant begins to follow the commits of other processes. Following them costs two sleeping threads, a
    /// connection, and a wake-up for each commit.
    public enum Observation: String, Sendable, CaseIterable, Codable {
        /// The participant begins with the first use of ``SharedDatabase/changes(in:)``, of a GRDB observation, or of
        /// ``SharedDatabase/add(transactionObserver:extent:)``.
        case onDemand
        /// The participant begins when it opens. This is for transaction observers that are added by
        /// `Database.add(transactionObserver:extent:)` inside an access, because Roundtable does not detect those.
        case always
    }
}

extension SharedDatabase.Options {
    var turnSettings: TurnSettings {
        TurnSettings(priority: priority.rawValue, slice: slice.nanoseconds, patience: patience.nanoseconds)
    }

    /// The pragmas that say when SQLite syncs, and their values.
    ///
    /// On Apple's systems, fsync(2) leaves the bytes in the drive's cache, and SQLite empties that if the last two say so. On other systems they
    /// have no effect. A checkpoint always does, because a power cut must not damage the database: the WAL is overwritten after it.
    var syncing: [(pragma: String, value: String)] {
        [
            ("synchronous", durability == .machine ? "FULL" : "NORMAL"),
            ("fullfsync", durability == .machine ? "1" : "0"),
            ("checkpoint_fullfsync", "1"),
        ]
    }

    func connectionOpening(_ path: String) -> ConnectionOpening {
        ConnectionOpening(
            path: path,
            keying: keying,
            role: role,
            timeout: backgroundBusyTimeout.nanoseconds,
            files: files
        )
    }

    /// The configuration of a connection of Roundtable's own.
    func connectionConfiguration(readonly: Bool) -> Configuration {
        var configuration = configuration
        configuration.readonly = readonly
        configuration.journalMode = .default
        // The suspension gate follows the notifications instead.
        configuration.observesSuspensionNotifications = false
        return configuration
    }

    /// The configuration of one reader connection, or of the connection that a read-only participant has in the writer's place.
    /// Each connection needs its own, because the busy handler keeps the state of a wait.
    func readerConfiguration(path: String, seat: Seat? = nil) -> Configuration {
        var configuration = connectionConfiguration(readonly: true)
        configuration.maximumReaderCount = 1
        configuration.allowsUnsafeTransactions = false
        switch busyMode {
        case .immediateError: configuration.busyMode = .immediateError
        case .timeout:
            let seconds = Double(busyTimeout.nanoseconds) / 1e9
            configuration.busyMode = .timeout(min(seconds, OpeningWait.longestTimeout))
        case .callback:
            let handler = BusyHandler(path: path, options: self, gate: nil)
            handler.seat = seat
            configuration.busyMode = .callback { handler.next(tries: $0) }
        }
        return configuration
    }
}
