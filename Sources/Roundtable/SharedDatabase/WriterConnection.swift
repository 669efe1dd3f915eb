import CRoundtableShims
import Foundation
import GRDB
import GRDBSQLite
import RoundtableKernel
import Synchronization

/// The one connection of a participant that writes, with its seat at the control block. It can be closed and opened again:
/// see `WriterConnection+Parking.swift`.
final class WriterConnection: @unchecked Sendable {
    // @unchecked: `seat` is set once, before the connection is shared with other threads; the rest is confined to `queue`.
    let link: Mutex<Link>
    /// The connection, unless it is about to close: what may be interrupted. Apart from `link`, which is held while a connection is opened, and
    /// for as long as that takes.
    let interruptible: Mutex<DatabaseQueue?>
    let openConnection: @Sendable () throws -> DatabaseQueue
    let observers = AddedObservers()
    let path: String
    /// Before any connection is opened.
    private let lockedFiles: LockedFiles
    private(set) var seat: Seat?
    let busyHandler: BusyHandler
    /// nil on a connection that does not write.
    let checkpointer: Checkpointer?
    private let walHook = WalHook()
    private var recorder: CommitRecorder?
    let gate: SuspensionGate
    private let writeTransaction: WriteTransaction
    private let emptyTransaction = EmptyTransaction()
    /// nil on a connection that does not write.
    private let history: HistoryStamp?
    /// nil on a connection that does not write, or that declares none.
    let extensions: ExtensionKeeper?
    /// nil for a schema without migrations.
    let watch: SchemaWatch?
    var sight = SchemaWatch.Sight()
    let lastMigration = LastMigration()
    /// Reads the schema on a connection of its own (rule S10). Set once, before the connection is shared.
    var lookAside: (((Database) throws -> Void) throws -> Void)?
    private let schemaVersionStatement = ReusedPragma("PRAGMA main.schema_version")
    private var lastDataVersion: UInt32?
    private var lastSchemaVersion: Int32?
    private var isClosing = false
    /// Of the accesses that have left a transaction open.
    private var visits: [UInt64] = []

    /// Opens the file, or creates it, as it is: no journal mode is changed.
    init(
        path: String,
        options: SharedDatabase.Options,
        gate: SuspensionGate,
        watch: SchemaWatch? = nil,
        extensions registry: ExtensionRegistry? = nil
    ) throws {
        let busyHandler = BusyHandler(path: path, options: options, gate: gate)
        busyHandler.isSettingUp = true
        let writeTransaction = WriteTransaction(isDoomed: { gate.isDoomed })
        let history = HistoryStamp()
        var configuration = options.configuration
        configuration.readonly = false
        configuration.journalMode = .default
        // The gate follows them.
        configuration.observesSuspensionNotifications = false
        configuration.busyMode = .callback { busyHandler.next(tries: $0) }
        let checkpointer = Checkpointer(path: path, options: options, gate: gate)
        walHook.mainDidCommit = { checkpointer.noteCommit(framesInWAL: $0) }
        configuration.prepareDatabase { [walHook] db in
            walHook.install(in: db)
            try history.addFunctions(to: db)
            try db.keepWalFiles()
            try db.setCheckpointOnClose(false)
            try db.execute(sql: "PRAGMA synchronous = \(options.durability.rawValue)")
        }
        self.path = path
        lockedFiles = LockedFiles(ofDatabaseAt: path)
        self.gate = gate
        self.writeTransaction = writeTransaction
        self.busyHandler = busyHandler
        self.history = history
        let extensions = registry.flatMap { $0.extensions.isEmpty ? nil : ExtensionKeeper($0) }
        self.extensions = extensions
        self.checkpointer = checkpointer
        self.watch = watch
        let opening = options.connectionOpening(path)
        openConnection = { [configuration] in
            try opening.queue(configuration, timeout: busyHandler.openingTimeout, gate: gate)
        }
        let queue = try openConnection()
        link = Mutex(Link(queue: queue))
        interruptible = Mutex(queue)
        queue.inDatabase(writeTransaction.install)
        gate.hook { hooks in
            hooks.interrupt = { [weak self] in
                self?.interrupt()
                // It may be waiting for a step within its turn.
                self?.checkpointer?.link.interrupt()
            }
            hooks.interruptCheckpoint = { [weak checkpointer] in checkpointer?.link.interrupt() }
            hooks.willDoom = { [weak self] in self?.rollBackOpenTransaction() }
        }
        writeTransaction.goesOn = { if gate.runningGoesOn() { gate.doom() } }
        writeTransaction.didRollback = {
            history.didRollback()
            extensions?.didRollback()
        }
        // Observers fetch after a commit, on this connection: other processes do not wait for that.
        // Called within a write, which keeps this alive.
        writeTransaction.didCommit = { [unowned self] db in
            // Before an observer reads here, and before another process can write: a later version would hide that process's commit.
            noteOwnCommit(db)
            gate.runningDidCommit()
            // Rule F4. Behind a closed gate, no step is to come for which the turn would be kept.
            let isClosed = gate.isClosed
            if isClosed || !checkpointer.isWriterInNeed(db) { seat?.giveTurnUp(goingOn: !isClosed) }
        }
    }

    /// The connection that a read-only participant has in the writer's place: whoever writes on it is told
    /// `SQLITE_READONLY`.
    init(
        readOnlyAt path: String,
        options: SharedDatabase.Options,
        gate: SuspensionGate,
        watch: SchemaWatch? = nil
    ) throws {
        self.path = path
        self.watch = watch
        lockedFiles = LockedFiles(ofDatabaseAt: path)
        self.gate = gate
        self.writeTransaction = WriteTransaction()
        self.busyHandler = BusyHandler(path: path, options: options, gate: gate)
        self.history = nil
        self.extensions = nil
        self.checkpointer = nil
        // SQLite has it read-only. GRDB does not know, or it would tell observers nothing.
        var configuration = options.readerConfiguration(path: path)
        configuration.readonly = false
        // It reads, whatever GRDB calls its accesses.
        configuration.writeTargetQueue = nil
        configuration.allowsUnsafeTransactions = options.configuration.allowsUnsafeTransactions
        let opening = options.connectionOpening(path)
        openConnection = { [configuration] in
            try opening.queue(configuration, at: Onlooker.uri(path, "mode=ro"), gate: gate)
        }
        let queue = try openConnection()
        link = Mutex(Link(queue: queue))
        interruptible = Mutex(queue)
        queue.inDatabase(writeTransaction.install)
    }

    func take(_ seat: Seat) {
        self.seat = seat
        history?.author = seat.author
        checkpointer?.take(seat)
        busyHandler.take { [seat] in seat.participant }
    }

    /// From now on, commits are announced to other processes. Once the database is in WAL mode.
    func recordCommits(_ didCommit: @escaping (() -> CommitRecorder.Commit) -> Void) {
        queue.inDatabase { db in
            busyHandler.isSettingUp = false
            let recorder = CommitRecorder(
                participant: { [seat] in seat?.participant },
                isSchemaKnown: { [unowned self] db in
                    (try? db.schemaVersion()) == lastSchemaVersion && hasNoNewMigration(db)
                },
                willCommit: { [unowned self] isSchemaKnown in try admitCommit(isSchemaKnown) },
                willMigrate: { [watch] in watch?.isMigrating = true },
                didMigrate: { [unowned self] db in noteOwnMigrations(db) },
                didNotMigrate: { [watch] in watch?.isMigrating = false },
                report: didCommit
            )
            if recorder.install(in: db, hook: walHook) { writeTransaction.recorder = recorder }
            self.recorder = recorder
            checkpointer?.writerDidOpen(db)
        }
    }

    /// Closes the connection, leaves the seat, and then empties the WAL if nobody else is there (rule K11).
    ///
    /// - parameter emptyingWAL: whether it may.
    func close(emptyingWAL: Bool) throws {
        if let queue = settleForClosing() {
            queue.inDatabase { _ in forgetConnection() }
            do {
                try queue.close()
            } catch {
                queue.inDatabase(keepConnection)
                throw error
            }
            link.withLock { $0.phase = .closed }
        }
        let block = queue.inDatabase { _ in
            let block = seat?.participant?.block
            leaveGate()
            seat?.leave()
            return block
        }
        // After leaving: of several that close at the same moment, one at least finds nobody.
        let isLastOut = block?.participants().allSatisfy { $0.liveness == .dead } ?? true
        if emptyingWAL, isLastOut, checkpointer?.emptyWAL() == true { block?.setCheckpointFailure(nil) }
        checkpointer?.link.close()
    }

    /// On the queue of a connection that is about to close: accesses that come in between take no turn, and compile no
    /// statement that would keep it open.
    func forgetConnection() {
        isClosing = true
        // A connection that closes must not be interrupted.
        interruptible.withLock { $0 = nil }
        writeTransaction.forgetStatements()
        emptyTransaction.forgetStatements()
        history?.forgetStatements()
        extensions?.forgetStatements()
        schemaVersionStatement.forget()
        lastMigration.forget()
    }

    /// On the queue of a connection that could not close.
    func keepConnection(_ db: Database) {
        isClosing = false
        let queue = queue
        interruptible.withLock { $0 = queue }
    }

    /// On the queue of a connection that takes the place of one that was closed.
    func adopt(_ db: Database) throws {
        if recorder != nil, try String.fetchOne(db, sql: "PRAGMA journal_mode") != "wal" {
            throw DatabaseError.leftWAL(path)
        }
        isClosing = false
        lastDataVersion = nil
        lastSchemaVersion = nil
        checkpointer?.writerDidOpen(db)
        writeTransaction.install(in: db)
        writeTransaction.recorder = recorder?.install(in: db, hook: walHook) == true ? recorder : nil
        observers.addAll(to: db)
    }

    /// Runs `updates` in a transaction. On `queue`.
    func transaction(_ db: Database, _ updates: () throws -> Void) throws {
        if isClosing { throw DatabaseError.closed(path) }
        try writeTransaction.run(db, updates)
    }

    // MARK: Turns

    /// Waits for the turn, runs `body`, and gives the turn up. On `queue`.
    ///
    /// - parameter requested: the time of the request: now.
    /// - parameter deadline: until when to wait at most; nil: as the busy mode says.
    /// - returns: whether `body` was run; not when the wait was ended because the gate was closed.
    /// - throws: what `body` throws; a `SQLITE_BUSY` of it with the name of who is in the way.
    func withTurn(
        _ db: Database,
        at site: CallSite?,
        since requested: Nanoseconds,
        until deadline: Nanoseconds? = nil,
        cancellation: WaitCancellation? = nil,
        _ body: () throws -> Void
    ) rethrows -> Bool {
        if isClosing {
            try body()
            return true
        }
        let outcome = seat?.takeTurn(
            at: requested,
            until: busyHandler.begin(requested: requested, deadline: deadline, cancellation: cancellation),
            callSite: site,
            cancellation: cancellation,
            limit: busyHandler.turnLimit
        ) {
            !db.isWriting && WalIndex(db)?.isWriteLockFree == true
        }
        if outcome == .timedOut { busyHandler.turnTimedOut() }
        if outcome == .cancelled, cancellation?.isCancelled != true {
            busyHandler.end()
            return false
        }
        defer {
            busyHandler.end()
            giveTurnUp(db)
        }
        try namingObstacles(body)
        return true
    }

    /// Adds to `SQLITE_BUSY` who is in the way, and to the error of a full or failing disk where that is. Within a turn, on `queue`; or while
    /// the connection is opened.
    func namingObstacles<T>(_ body: () throws -> T) rethrows -> T {
        do {
            return try body()
        } catch let error as DatabaseError {
            throw named(error)
        } catch let error as NotBegun {
            guard let reason = error.reason as? DatabaseError else { throw error }
            let isForGate =
                error.isForGate || reason.resultCode == .SQLITE_BUSY && gate.hasGivenUp.load(ordering: .acquiring)
            throw NotBegun(reason: named(reason), isForGate: isForGate)
        }
    }

    private func named(_ error: DatabaseError) -> any Error {
        error.resultCode == .SQLITE_BUSY ? busyHandler.named(error) : error.namingFile(path)
    }

    /// At the end of an access: leaves the gate, unless its transaction is still open. On `queue`.
    func leaveGate(_ visit: UInt64, _ db: Database, _ interruption: SuspensionGate.Interruption?) {
        if db.isWriting {
            visits.append(visit)
        } else {
            gate.leave(visit, interruption)
            if !visits.isEmpty { leaveGate(interruption) }
        }
    }

    private func leaveGate(_ interruption: SuspensionGate.Interruption? = nil) {
        for visit in visits { gate.leave(visit, interruption) }
        visits = []
    }

    func beginAccess() { writeTransaction.beginAccess() }

    /// Whether a commit has been made since `beginAccess()`.
    var hasCommitted: Bool { writeTransaction.hasCommitted }

    /// How often a transaction was rolled back. On `queue`.
    var rollbacks: Int { writeTransaction.rollbacks }

    /// Rolls back what no access is at. From any thread.
    func rollBackOpenTransaction() {
        // Without a connection, there is no transaction.
        interruptible.withLock { $0 }?.asyncWriteWithoutTransaction { [self] db in
            guard !visits.isEmpty, gate.isDoomed else { return }
            let isOpen = db.isInsideTransaction
            if isOpen { try? db.rollback() }
            // A statement of the user's that is still being stepped keeps the lock.
            if db.isWriting { return }
            seat?.giveTurnUp(goingOn: false)
            leaveGate(isOpen ? .rolledBack : nil)
        }
    }

    /// On `queue`, after statements that did not run within `withTurn`.
    func endAccess() { writeTransaction.endAccess() }

    /// When an access ends. A transaction's commit may have given the turn up already.
    private func giveTurnUp(_ db: Database) {
        writeTransaction.endAccess()
        // Rule W3.
        if db.isWriting { return }
        // A failed statement that has come to an FTS5 table can leave the connection reading until its next statement ends (seen in
        // SQLite 3.40.1, not in 3.53.4): then its next write fails at once, when others have committed.
        if !db.isWithoutTransaction { _ = try? db.schemaVersion() }
        recorder?.endTurn()
        // Rule F4. The observers of a commit may have taken long, and the gate been closed meanwhile: the write counts as outside then.
        if let checkpointer, checkpointer.isWriterInNeed(db), gate.runningMayBeginStep() { checkpointer.helpWriter(db) }
        seat?.giveTurnUp(goingOn: !gate.isClosed)
        // What the gate turns away is done when it opens.
        checkpointer?.beginIfNeeded(db)
    }

    /// Tells the observers of this connection what other participants have changed. On `queue`.
    func notify(_ db: Database, _ tables: Change.Tables) throws {
        if isClosing { return }
        // Observers would be told when it ends, and not at all when it is rolled back.
        if db.isInsideTransaction { throw DatabaseError(resultCode: .SQLITE_LOCKED) }
        try lookAtOthers(db)
        try emptyTransaction.run(db) {
            try db.notifyChanges(in: tables)
            recorder?.forgetTables()
        }
    }

    /// GRDB's schema cache is not told of what other processes changed. On `queue`; outside of a transaction, what others
    /// have committed is only seen after `lookAtOthers`.
    func forgetSchemaIfChanged(_ db: Database) throws {
        let counter = recorder?.commitCounter
        if let version = dataVersion(db), version == lastDataVersion {
            recorder?.lookedAtSchema(at: counter)
            return
        }
        // GRDB's way takes several times as long, and tells why it fails.
        let schemaVersion = try schemaVersionStatement.value(db) ?? db.schemaVersion()
        try lookAtMigrations(db, schemaVersion)
        if lastSchemaVersion != schemaVersion {
            db.clearSchemaCache()
            try recorder?.learnSchema(db)
            history?.schemaDidChange()
            extensions?.schemaDidChange()
        }
        lastSchemaVersion = schemaVersion
        recorder?.lookedAtSchema(at: counter)
    }

    /// On `queue`, outside of a transaction.
    func lookAtHistory(_ db: Database) {
        // What keeps this from looking, the next write meets too.
        try? lookAtOthers(db)
        prepareHistory(db)
    }

    /// What the history and the extensions want done before a write. On `queue`, after `forgetSchemaIfChanged` or `lookAtOthers`.
    func prepareHistory(_ db: Database) {
        if isClosing || refusesWrites { return }
        history?.prepare(db)
        extensions?.prepare(db)
    }

    /// Begins and ends a read, which finds out what others have committed since.
    func lookAtOthers(_ db: Database) throws {
        if isClosing || db.isInTransaction { return }
        lastDataVersion = nil
        try forgetSchemaIfChanged(db)
    }

    /// Own commits move the data version too. Right after a commit, on `queue`.
    func noteOwnCommit(_ db: Database) {
        lastDataVersion = dataVersion(db)
    }

    /// A number that moves with each commit that this connection has met: its own, and at the begin of a transaction,
    /// those of others. One field of the pager, read for less than a statement costs. nil when SQLite does not tell.
    func dataVersion(_ db: Database) -> UInt32? {
        guard let connection = db.sqliteConnection else { return nil }
        var version: UInt32 = 0
        let code = sqlite3_file_control(connection, "main", SQLITE_FCNTL_DATA_VERSION, &version)
        return code == SQLITE_OK ? version : nil
    }
}

extension Database {
    /// `isInsideTransaction` without GRDB's look at the thread, which costs more than all the rest.
    var isInTransaction: Bool { sqliteConnection.map { sqlite3_get_autocommit($0) == 0 } ?? false }

    /// Whether the connection holds SQLite's write lock, perhaps because of a statement that is still being stepped
    /// ([sqlite3_txn_state](https://www.sqlite.org/c3ref/txn_state.html)).
    var isWriting: Bool {
        guard let sqliteConnection else { return false }
        return isInTransaction || sqlite3_txn_state(sqliteConnection, "main") == SQLITE_TXN_WRITE
    }

    /// Whether no statement reads or writes. SQLite's own locks must not be mistaken for those that are taken below it.
    var isWithoutTransaction: Bool {
        guard let sqliteConnection else { return false }
        return sqlite3_txn_state(sqliteConnection, nil) == SQLITE_TXN_NONE
    }

    /// Whether the connection, if it is the last one, checkpoints when it closes. Only when the user closes the database: for
    /// that, SQLite takes an exclusive lock, which may not be held when the process is frozen.
    func setCheckpointOnClose(_ isOn: Bool) throws {
        guard let sqliteConnection else { return }
        let code = rt_checkpoint_on_close(sqliteConnection, isOn ? 1 : 0)
        guard code == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
    }

    /// `-wal` and `-shm` stay when the last connection closes, so that read-only processes can open the database
    /// ([SQLITE_FCNTL_PERSIST_WAL](https://www.sqlite.org/c3ref/c_fcntl_begin_atomic_write.html)).
    func keepWalFiles() throws {
        var flag: CInt = 1
        let code = sqlite3_file_control(sqliteConnection, "main", SQLITE_FCNTL_PERSIST_WAL, &flag)
        guard code == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
    }
}
