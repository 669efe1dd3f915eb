import Roundtable
import RoundtableKernel

/// What a test tells `roundtable-peer` to do: one line of JSON on its standard input. Each command gets one `PeerReply`,
/// in order.
package enum PeerCommand: Codable, Sendable {
    /// Opens a `SharedDatabase` for reading and writing.
    case open(PeerOpening)
    /// Opens a `SharedDatabase` for reading; `waiting`: up to so many ms for it to become available, 0 for not at all.
    case openReadOnly(PeerOpening, waiting: Int)
    /// Opens a plain GRDB `DatabasePool`, as GRDB's sharing guide says, to compare with.
    case openPool(PeerOpening)
    /// Commits one transaction with so many rows.
    case write(rows: Int)
    /// Commits transactions until the time is over or `stop` comes. The reply has a `WriteReport`.
    case writeLoop(WriteLoad)
    /// Commits transactions of `LedgerSchema`, with random tables and pauses, until the time is over or a command comes.
    case ledgerLoop(seconds: Double, pause: Double, seed: UInt64)
    /// Ends a `writeLoop` or a `consumeLoop`.
    case stop
    /// Begins a transaction, inserts a row, and stays inside until `release`. The reply comes when it is inside.
    case holdTransaction
    /// Takes the turn, writes nothing, and keeps it until `release`. The reply comes when it has it.
    case holdTurn
    /// Begins an ordinary read, and stays inside until `release`. The reply comes when it is inside; its message is the line of
    /// code.
    case holdRead
    /// Looks at a database from outside, and from there. The reply has `status` and `diagnosis`.
    case look(path: String)
    /// The same, without `diagnosis`, which may take a second.
    case lookAtStatus(path: String)
    /// The reply has the `WALHealth`.
    case walHealth
    /// Ends `holdTransaction`, `holdTurn` or `holdRead`. The reply comes when it has ended.
    case release(commit: Bool)
    /// The reply's number is how many rows the table has.
    case count
    /// The reply's message is what `SharedDatabase.Options.onSchemaEvent` has reported, a line each.
    case schemaEvents
    /// The reply's message is why the database is uncoordinated; none when it is coordinated.
    case status
    /// Runs SQL in one transaction.
    case execute(sql: String)
    /// Makes a snapshot, or does something with it. The replies have `moments`.
    case snapshot(SnapshotCommand)
    /// Does something with a snapshot file. Needs no database.
    case snapshotFile(SnapshotFileCommand)
    /// Consumes the history until `stop` comes.
    case consumeLoop(ConsumeLoad)
    /// Submits to the outbox, without opening the database. The reply comes when all is submitted.
    case submitLoop(SubmitLoad)
    /// What a peer does with extensions.
    case extensions(ExtensionCommand)
    /// Opens the database of `PeerOutbox` as the owner of its outbox; publishes a `PeerSnapshotValue` with the count of what is applied.
    case ownOutbox(path: String, publishingTo: String? = nil)
    /// Uses the outbox and snapshot files in every way, without opening the database, until a command comes. The reply has a `SharingReport`.
    case share(SharingLoad)
    /// The reply's number is how many commands of `PeerOutbox` are applied.
    case countApplied
    /// Interrupts the database after so many ms, from another thread.
    case interrupt(after: Int)
    case close
    /// Forks, and writes in the child. The reply's message is the error that the child got.
    case useAfterFork
    /// Makes system calls of the kernel fail; replaces earlier faults.
    case inject([Fault])
    /// Observes the database until the peer ends, and logs what it is told. The reply comes when it has begun.
    case observe(Observing)
    /// Runs schedules one after the other, each on a new database in this folder. The reply has `outcomes`. Changes the VFS of the peer.
    case runSchedules([CheckpointSchedule], by: Checkpointer, folder: String)
    /// Notes the calls of the checkpoints from now on, and meets a fate at one. To be said before the database is opened, and as often as needed:
    /// each time counts from 0. *Beyond*, if said the first time: also the calls that are made with the WRITE lock, outside of transactions and
    /// checkpoints (rule K5). Changes the VFS of the peer.
    case watchCheckpoints(CheckpointFate? = nil, beyond: Bool = false)
    /// The reply has the `calls`.
    case checkpointCalls
    /// The reply's number is how many frames are not in the database file.
    case checkpoint(CheckpointSchedule.Mode)
    /// Commits one row, and dies within (`kill -9`): there is no reply.
    case die(DyingMoment)
}

/// What an observing peer does with what it is told. Its logs are an `ObservationLog`.
package struct Observing: Codable, Sendable {
    /// The path of the log.
    package var log: String
    /// Through `changes(in:)`, and not through `observeChanges(in:)`.
    package var asSequence = false
    /// How long it takes over each change.
    package var pauseMilliseconds: Double = 0

    package init(log: String, asSequence: Bool = false, pause: Double = 0) {
        self.log = log
        self.asSequence = asSequence
        pauseMilliseconds = pause
    }
}

/// Moments of a commit at which a peer can be made to die.
package enum DyingMoment: String, Codable, Sendable, CaseIterable {
    /// The record is reserved, SQLite has not committed (rule R4: void).
    case beforeCommitting
    /// SQLite has committed, the record is not settled.
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

/// `SharedDatabase.Options`, as far as tests need them; nil for the default.
package struct PeerOptions: Codable, Sendable {
    /// 0 interactive, 1 default, 2 background.
    package var priority: UInt8?
    package var sliceMilliseconds: Int?
    package var patienceMilliseconds: Int?
    package var busyTimeoutMilliseconds: Int?
    package var setupTimeoutMilliseconds: Int?
    /// Of a GRDB pool: tells it of suspensions, which the peer hears of from the police.
    package var observesSuspension: Bool?
    /// Of ours: what it lets go of when the police is about to freeze the peer. nil: it is not connected to the police.
    /// Writes that meet the closed gate wait.
    package var suspensionPolicy: SuspensionPolicy?
    /// Whether it asks the police for assertions.
    package var takesAssertions: Bool?
    /// Of a `SharedDatabase`: `suspendAllOnTerminalStop()`, and writes wait while it is suspended.
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
        checkpointing: Checkpointing? = nil
    ) {
        self.priority = priority
        self.observesSuspension = observesSuspension
        self.suspensionPolicy = suspensionPolicy
        self.takesAssertions = takesAssertions
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
    /// Between two transactions.
    package var thinkMilliseconds: Double
    /// How long each transaction takes at least.
    package var transactionMilliseconds: Double
    package var rows: Int
    /// The most transactions; nil: as many as fit into the time.
    package var commits: Int?

    package init(seconds: Double, think: Double = 0, transaction: Double = 0, rows: Int = 1, commits: Int? = nil) {
        self.seconds = seconds
        thinkMilliseconds = think
        transactionMilliseconds = transaction
        self.rows = rows
        self.commits = commits
    }
}

/// The work of a `consumeLoop`: the changes of `entry` go into a `ConsumerJournal`, and, in the transaction that acknowledges
/// them, into the table `mirror`.
package struct ConsumeLoad: Codable, Sendable {
    package var journal: String
    /// The most changes at once.
    package var limit: Int
    /// Between reading and acknowledging.
    package var milliseconds: Double

    package init(journal: String, limit: Int, milliseconds: Double) {
        self.journal = journal
        self.limit = limit
        self.milliseconds = milliseconds
    }
}
