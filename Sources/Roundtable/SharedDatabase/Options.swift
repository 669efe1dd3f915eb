import Foundation
import GRDB
import RoundtableKernel

extension SharedDatabase {
    /// How a participant opens, waits and writes. The defaults suit an app and its extensions. What is too small counts as the
    /// smallest that makes sense.
    public struct Options: Sendable {
        /// The most reader connections that are open at once. Further reads wait for one. At least 1.
        public var maximumReaderCount = 5

        /// How long a write waits for its turn and for SQLite's write lock before it fails with `SQLITE_BUSY`, and a read
        /// for the rare locks that make readers wait ([when WAL returns
        /// SQLITE_BUSY](https://www.sqlite.org/wal.html#sometimes_queries_return_sqlite_busy_in_wal_mode)).
        ///
        /// Creating and migrating wait as ``setupTimeout`` says, where this is no timeout.
        public var busyMode: BusyMode = .timeout(defaultBusyTimeout)

        /// How long opening waits for another process that is creating or migrating the database.
        public var setupTimeout: Duration = .seconds(60)

        /// Who goes first when several participants wait to write.
        public var priority: TurnPriority = .default

        /// How long this participant may go on writing, transaction after transaction, while others wait. A transaction
        /// that has begun always ends; the slice is only looked at between transactions. At most 1 s. Those who wait honour it,
        /// however little patience they have.
        public var slice: Duration = .milliseconds(2)

        /// How long a wait goes on without any progress before this participant looks whether the one who has the turn
        /// is dead or frozen. At least 1 ms.
        public var patience: Duration = .milliseconds(100)

        /// From when on this participant follows the commits of other processes.
        public var observation: Observation = .onDemand

        /// Who copies what the WAL has gathered into the database file, and when.
        public var checkpointing: CheckpointPolicy = .automatic

        /// What survives a power cut.
        public var durability: Durability = .normal

        /// When a snapshot of this participant has stayed at one moment for too long, so that `onLongRead` is called.
        public var longReadLimit = LongRead.Limit()

        /// Called once for each moment that a snapshot stays at for too long, on a thread of the system: when its age passes the
        /// limit, or when it is found out that it holds back more frames than that, or that a checkpoint, its own or another's, was
        /// held up by it. An idle process looks when the age passes the limit; before that, with each use of a snapshot and each
        /// write of its own.
        public var onLongRead: (@Sendable (LongRead) -> Void)?

        /// How old the moment of a snapshot may become. Then it is ended, whatever it is doing: the statement that runs is
        /// interrupted, and its next use fails with `SQLITE_ABORT`, until `advance()` takes it to a new moment. nil, the default:
        /// as old as it likes. At least 1 ms.
        ///
        /// A guard against snapshots that somebody has forgotten, which would let the WAL grow without bound: choose several
        /// times what your longest export takes.
        public var maximumSnapshotAge: Duration?

        /// Called when a checkpoint of this participant was held up, or failed, and the WAL is longer than it should be, on a thread of the
        /// system: once for each read that is most in the way, once for each way of failing, and again whenever the WAL has become twice as
        /// long. The health says who it is, a process of yours that is stuck, a program that knows nothing of Roundtable, or why SQLite failed.
        public var onCheckpointHeldUp: (@Sendable (WALHealth) -> Void)?

        /// What a suspended database lets go of.
        public var suspensionPolicy: SuspensionPolicy = .writeLocks

        /// What writing and opening do that meet a closed gate. nil: async code, and code that returns at once, waits; blocking code
        /// fails. For reads, that is so in any case (``SuspensionPolicy/everything``).
        public var whileSuspended: WhileSuspended?

        /// How long the running write may go on when a suspension says no deadline: after GRDB's notification, at the end of a
        /// protected access that the system gave no assertion.
        public var suspensionGrace: Duration = .milliseconds(40)

        /// What this participant does with the commands that other processes submit for this database (``Outbox``). nil: it leaves them to
        /// others. Not for read-only participants.
        public var outbox: OutboxHandlers?

        /// The folder of the outbox. nil, the default: the one beside the database, `NAME-outbox`. It need not exist; the one that it is in must.
        ///
        /// For a database that lies where senders may not look, such as in the app's own container: have the folder in the App Group's, and let
        /// senders use ``Outbox/init(at:as:options:)``. All who open the database should say the same, since an owner applies what is in its own
        /// folder. One folder belongs to one database: commands do not say which they are for. Owners tell when it is not so, to
        /// ``OutboxHandlers/onEvent``.
        public var outboxFolder: URL?

        /// Whether what waits in the outbox is applied before opening returns, so that the first read sees it. What fails does not make
        /// opening fail.
        public var drainOnOpen = true

        /// How long opening applies what waits. The rest is applied in the background.
        public var drainOnOpenLimit: Duration = .seconds(2)

        /// Called when an extension is being built, or has to be built anew, on a thread of the system or on that which opens the database.
        public var onExtensionEvent: (@Sendable (ExtensionEvent) -> Void)?

        /// What this participant does when another program migrates the database further than this program knows, while it has it open. All
        /// who open the database may say something else. Of no effect for a schema without migrations. See <doc:OpeningAndMigrating>.
        public var newerSchemaPolicy: NewerSchemaPolicy = .refuseWrites

        /// Called when the database becomes newer than this program, and when it is so no longer: on a thread of the system, one event after the other. It is
        /// noticed by the next access, or at once where this participant observes the database.
        public var onSchemaEvent: (@Sendable (SchemaEvent) -> Void)?

        /// Extensions of this process alone, which the database keeps nothing of: for processes that open it read-only, and for programs that
        /// are the only process to write it. While another process has it open for writing too, opening and using them fails.
        ///
        /// They are asked like others. Each connection derives its own when it is first asked for it, in memory or in temporary files, and
        /// derives all of it anew when the database has changed since.
        public var temporaryExtensions: [any SharedExtension] = []

        /// How the database is encrypted (<doc:Encryption>). nil, the default: it is not.
        public var encryption: Encryption?

        /// Of the database that is opened, found out once.
        var keying: Keying?

        /// Tests have their own.
        package var process = ProcessSuspension.shared

        #if canImport(Darwin)
            /// When the files of the database can be read, on devices that lock: the database, its `-wal` and its `-shm`. Set by each participant
            /// that opens it for writing, so all should say the same.
            ///
            /// nil, the default: the class of the database file stays, and its companions get it too. New files have that of the app's
            /// entitlement, or `.completeUntilFirstUserAuthentication`, which is the right one for a shared database: processes that are
            /// woken while the device is locked can use it. With `.complete` and `.completeUnlessOpen` they cannot: their accesses fail,
            /// with `SQLITE_IOERR` or the like, and a process that touches SQLite's mapped `-shm` file then may crash. Choose
            /// them only if nobody uses the database while the device is locked.
            public var fileProtection: FileProtectionType?
        #endif

        /// Everything else that GRDB can be configured with: custom functions, collations, tracing, labels, foreign
        /// keys, quality of service.
        ///
        /// Roundtable decides for itself about `readonly`, `busyMode`, `journalMode` and `maximumReaderCount`, and
        /// ignores what they say here.
        public var configuration = Configuration()

        public init() {}
    }

    /// Who goes first when several participants wait to write. Waiting raises a priority by one level every 100 ms, so
    /// nobody waits for ever.
    public enum TurnPriority: UInt8, Sendable, CaseIterable, Codable {
        /// Somebody is looking at a screen.
        case interactive = 0
        case `default` = 1
        /// Nobody would notice a delay: synchronization, indexing, maintenance.
        case background = 2
    }

    /// From when on a participant follows the commits of other processes. Following them costs two threads that sleep, a connection,
    /// and a wake-up for each commit.
    public enum Observation: String, Sendable, CaseIterable, Codable {
        /// From the first use of ``SharedDatabase/changes(in:)``, of a GRDB observation, or of
        /// ``SharedDatabase/add(transactionObserver:extent:)``.
        case onDemand
        /// From the beginning. For transaction observers that are added by `Database.add(transactionObserver:extent:)` inside of
        /// an access, which nobody notices.
        case always
    }

    /// [`PRAGMA synchronous`](https://www.sqlite.org/pragma.html#pragma_synchronous) of the writer connection.
    ///
    /// Whatever you choose, a committed transaction survives the death of any process, and the database is not
    /// corrupted by a power cut.
    public enum Durability: String, Sendable, CaseIterable, Codable {
        /// A power cut may undo the last commits. GRDB's default for `DatabasePool`.
        case normal = "NORMAL"
        /// A commit is on the disk when it returns, at the price of a sync each.
        case full = "FULL"
    }
}

extension SharedDatabase.Options {
    func outboxFolder(ofDatabaseAt path: String) throws -> OutboxFolder {
        guard let outboxFolder else { return OutboxFolder(databasePath: path) }
        return try OutboxFolder(at: outboxFolder, databasePath: path)
    }

    var turnSettings: TurnSettings {
        TurnSettings(priority: priority.rawValue, slice: slice.nanoseconds, patience: patience.nanoseconds)
    }

    func connectionOpening(_ path: String) -> ConnectionOpening {
        ConnectionOpening(path: path, keying: keying, timeout: backgroundBusyTimeout.nanoseconds)
    }

    /// The configuration of a reader connection, and that of the only connection of a read-only participant. Of one connection: its waits
    /// are counted.
    func readerConfiguration(
        path: String,
        participant: @escaping () -> Participant? = { nil }
    ) -> Configuration {
        var configuration = configuration
        configuration.readonly = true
        configuration.journalMode = .default
        configuration.maximumReaderCount = 1
        configuration.allowsUnsafeTransactions = false
        // The gate follows them.
        configuration.observesSuspensionNotifications = false
        switch busyMode {
        case .immediateError: configuration.busyMode = .immediateError
        case .timeout:
            let seconds = Double(busyTimeout.nanoseconds) / 1e9
            configuration.busyMode = .timeout(min(seconds, OpeningWait.longestTimeout))
        case .callback:
            let handler = BusyHandler(path: path, options: self, gate: nil)
            handler.take(participant)
            configuration.busyMode = .callback { handler.next(tries: $0) }
        }
        return configuration
    }
}
