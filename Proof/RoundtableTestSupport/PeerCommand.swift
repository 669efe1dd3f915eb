import Roundtable
import RoundtableKernel

/// A command of a test to `roundtable-peer`: one line of JSON on its standard input. Each command gets one `PeerReply`, in order.
package enum PeerCommand: Codable, Sendable {
    /// Opens a `SharedDatabase` for reading and writing.
    case open(PeerOpening)
    /// Opens a `SharedDatabase` for reading. `waiting` is the longest wait in ms for the database to become available; 0 for no wait.
    case openReadOnly(PeerOpening, waiting: Int)
    /// Opens a plain GRDB `DatabasePool`, as GRDB's sharing guide advises, for comparison.
    case openPool(PeerOpening)
    /// Commits one transaction that inserts `rows` rows.
    case write(rows: Int)
    /// Commits transactions until the time is over or `stop` arrives. The reply has a `WriteReport`.
    case writeLoop(WriteLoad)
    /// Writes in many tasks until a command arrives. The reply's number is the number of writes.
    case writeShared(SharedWriteLoad)
    /// Commits transactions of `LedgerSchema`, with random tables and pauses, until the time is over or a command arrives.
    case ledgerLoop(seconds: Double, pause: Double, seed: UInt64)
    /// Ends a `writeLoop` or a `consumeLoop`.
    case stop
    /// Begins a transaction, inserts a row, and keeps the transaction open until `release`. The peer replies when the row is inserted.
    case holdTransaction
    /// Takes the turn, writes nothing, and keeps the turn until `release`. The peer replies when it has the turn.
    case holdTurn
    /// Begins an ordinary read, and keeps it open until `release`. The peer replies when the read has begun; the message is the line of
    /// code.
    case holdRead
    /// Inspects a database in the peer's process, without opening it. The reply has `status` and `diagnosis`.
    case look(path: String)
    /// Inspects a database as `look` does. The reply has `status` alone, because `diagnosis` may take a second.
    case lookAtStatus(path: String)
    /// The reply has the `WALHealth`.
    case walHealth
    /// Ends `holdTransaction`, `holdTurn` or `holdRead`. The peer replies when that has ended.
    case release(commit: Bool)
    /// Counts the rows of the table `entry`. The reply's number is the count.
    case count
    /// The reply's message has the events of the schema that the database has reported, one on each line.
    case schemaEvents
    /// The reply's message has all events that the database has reported, one on each line: severity, category and description.
    case events
    /// The reply's message is the reason why the database is uncoordinated; there is none when it is coordinated.
    case status
    /// Runs SQL in one transaction.
    case execute(sql: String)
    /// Replaces the content by that of another file.
    case replaceContent(path: String)
    /// Makes a snapshot or uses it. The replies have `moments`.
    case snapshot(SnapshotCommand)
    /// Acquires the role `sync`, uses it, or gives it up. The reply's number is the generation.
    case role(RoleCommand)
    /// Opens a database with a second one attached, and the second one with the turns of the first, or writes both at the same time. The
    /// reply to `write` has the number of writes that found a lock.
    case pair(PairCommand)
    /// Quarantines or erases the database at a path. Needs no database.
    case moveAside(path: String, erasing: Bool)
    /// Uses a snapshot file. Needs no database.
    case snapshotFile(SnapshotFileCommand)
    /// Records the history of a table, and registers consumers that begin with the next change of it.
    case recordHistory(of: String, consumers: [String])
    /// Consumes the history until `stop` arrives.
    case consumeLoop(ConsumeLoad)
    /// Follows the deletions of `TombstoneWorld` until a command arrives.
    case followDeletions(limit: Int)
    /// Submits commands to the outbox, without opening the database. The peer replies when all are submitted.
    case submitLoop(SubmitLoad)
    /// Uses the derived tables of `DerivedTableWorld`.
    case derivedTables(DerivedTableCommand)
    /// Opens the database of `PeerOutbox` as the owner of its outbox, and publishes a `PeerSnapshotValue` with the count of applied
    /// commands.
    case ownOutbox(path: String, publishingTo: String? = nil)
    /// Uses the outbox and snapshot files in every way, without opening the database, until a command arrives. The reply has a
    /// `SharingReport`.
    case share(SharingLoad)
    /// The reply's number is the number of applied commands of `PeerOutbox`.
    case countApplied
    /// Interrupts the database from another thread, after this many ms.
    case interrupt(after: Int)
    case close
    /// Forks, and writes in the child. The reply's message is the error that the write in the child failed with.
    case useAfterFork
    /// Makes system calls of Roundtable's kernel fail. The faults replace earlier ones.
    case inject([Fault])
    /// Observes the database until the peer ends, and logs each notification. The peer replies when the observation has begun.
    case observe(Observing)
    /// Runs schedules one after the other, each on a new database in `folder`. The reply has `outcomes`. Changes the VFS of the peer.
    case runSchedules([CheckpointSchedule], by: Checkpointer, folder: String)
    /// Records the calls of the checkpoints from now on, and applies the `CheckpointFate` at one of them.
    ///
    /// The first of these commands must come before the database is opened. Each later one counts the calls from 0 again. If the first one
    /// has `beyond`, the calls that are made with the WRITE lock outside of transactions and checkpoints are recorded, too (rule K5).
    /// Changes the VFS of the peer.
    case watchCheckpoints(CheckpointFate? = nil, beyond: Bool = false)
    /// The reply has the recorded `calls`.
    case checkpointCalls
    /// Opens the database of a campaign and does one process's part of it, until a command arrives.
    case campaign(CampaignWork)
    /// Makes a checkpoint. The reply's number is the number of frames that are not in the database file.
    case checkpoint(CheckpointSchedule.Mode)
    /// Commits one row, and dies during the commit (`kill -9`), without a reply.
    case die(DyingMoment)
    /// Performs a step of the sweep through every system call. The reply has `sweep`. Steps in one folder belong together.
    case sweep(SweepStep)
}

/// How a peer observes the database. It writes an `ObservationLog`.
package struct Observing: Codable, Sendable {
    /// The path of the log.
    package var log: String
    /// Whether the peer uses `changes(in:)` instead of `observeChanges(in:)`.
    package var asSequence = false
    /// The pause after each change.
    package var pauseMilliseconds: Double = 0

    package init(log: String, asSequence: Bool = false, pause: Double = 0) {
        self.log = log
        self.asSequence = asSequence
        pauseMilliseconds = pause
    }
}

/// What a peer does with the role `sync`.
package enum RoleCommand: Codable, Sendable {
    /// - parameter patience: in ms.
    case acquire(patience: Int)
    /// Commits one row as the holder.
    case write
    case end
}

/// What a peer does with two databases, of which the second is attached to the first.
package enum PairCommand: Codable, Sendable {
    case open(PeerOpening, second: String)
    /// Commits this number of transactions to each, in threads of their own: those of the first database write both. nil: until the peer ends.
    case write(Int?)
}

/// Moments of a commit at which a peer can be made to die.
package enum DyingMoment: String, Codable, Sendable, CaseIterable {
    /// The record is reserved, but SQLite has not committed (rule R4: void).
    case beforeCommitting
    /// SQLite has committed, but the record is still reserved.
    case beforePublishing
}

/// How a peer opens a database.
package struct PeerOpening: Codable, Sendable {
    package var path: String
    package var author: String
    package var schema: PeerSchema
    package var options: PeerOptions
    /// The file in which the peer counts its acknowledged commits, see `ProgressFile`.
    package var progress: String?
}

/// The `SharedDatabase.Options` that tests need. nil stands for the default.
package struct PeerOptions: Codable, Sendable {
    /// The priority: 0 for interactive, 1 for default, 2 for background.
    package var priority: UInt8?
    package var sliceMilliseconds: Int?
    package var patienceMilliseconds: Int?
    package var busyTimeoutMilliseconds: Int?
    package var setupTimeoutMilliseconds: Int?
    /// For a GRDB pool: whether the pool observes suspension notifications. The peer posts them when the police gives notice.
    package var observesSuspension: Bool?
    /// For a `SharedDatabase`: what it releases when the police is about to freeze the peer; nil to not connect to the police.
    /// Writes that find the gate closed wait.
    package var suspensionPolicy: SuspensionPolicy?
    /// Whether the peer asks the police for assertions.
    package var takesAssertions: Bool?
    /// Whether the system freezes the peer without notice, as a widget (rule F5b).
    package var isUnnoticed: Bool?
    /// For a `SharedDatabase`: whether the peer calls `suspendAllOnTerminalStop()`. Writes wait while the database is suspended.
    package var suspendsOnTerminalStop: Bool?
    package var checkpointing: Checkpointing?
    package var encryption: PeerEncryption?
    package var newerSchemaPolicy: SharedDatabase.NewerSchemaPolicy?

    /// `SharedDatabase.CheckpointPolicy`.
    package enum Checkpointing: Codable, Sendable {
        case automatic(threshold: Int)
        case manual, external
    }

    package init(
        priority: UInt8? = nil,
        slice: Int? = nil,
        patience: Int? = nil,
        busyTimeout: Int? = nil,
        setupTimeout: Int? = nil,
        observesSuspension: Bool? = nil,
        suspensionPolicy: SuspensionPolicy? = nil,
        takesAssertions: Bool? = nil,
        isUnnoticed: Bool? = nil,
        checkpointing: Checkpointing? = nil
    ) {
        self.priority = priority
        self.observesSuspension = observesSuspension
        self.suspensionPolicy = suspensionPolicy
        self.takesAssertions = takesAssertions
        self.isUnnoticed = isUnnoticed
        self.checkpointing = checkpointing
        sliceMilliseconds = slice
        patienceMilliseconds = patience
        busyTimeoutMilliseconds = busyTimeout
        setupTimeoutMilliseconds = setupTimeout
    }
}

/// The work of a `writeLoop`.
package struct WriteLoad: Codable, Sendable {
    package var seconds: Double
    /// The pause between two transactions.
    package var thinkMilliseconds: Double
    /// The shortest duration of each transaction.
    package var transactionMilliseconds: Double
    /// How many rows each transaction inserts; nil for rows until a command arrives.
    package var rows: Int?
    /// The largest number of transactions; nil for as many as fit into the time.
    package var commits: Int?
    /// The priority of each write: 0 for interactive, 1 for default, 2 for background; nil for that of the participant.
    package var priority: UInt8?

    package init(
        seconds: Double,
        think: Double = 0,
        transaction: Double = 0,
        rows: Int? = 1,
        commits: Int? = nil,
        priority: UInt8? = nil
    ) {
        self.priority = priority
        self.seconds = seconds
        thinkMilliseconds = think
        transactionMilliseconds = transaction
        self.rows = rows
        self.commits = commits
    }
}

/// The work of a `consumeLoop`. The peer writes the changes of `entry` into a `ConsumerJournal`, and also into the table `mirror`, in
/// the transaction that acknowledges them.
package struct ConsumeLoad: Codable, Sendable {
    package var journal: String
    /// The largest number of changes that are read in one call.
    package var limit: Int
    /// The pause between reading and acknowledging.
    package var milliseconds: Double

    package init(journal: String, limit: Int, milliseconds: Double) {
        self.journal = journal
        self.limit = limit
        self.milliseconds = milliseconds
    }
}
