import Foundation
import GRDB
import GRDBSQLite
import RoundtableGate
import RoundtableKernel
import Synchronization

// Rule W1: A participant has one writer connection and up to N reader connections. The database is in WAL mode, with a persistent WAL on
// the writer, and writes begin with `BEGIN IMMEDIATE`. No connection uses SQLite's automatic checkpoint.

/// The writer connection of a participant, with its seat at the control block. It can be closed and reopened: see
/// `WriterConnection+Parking.swift`.
package final class WriterConnection: @unchecked Sendable {
    // @unchecked: `seat` is set once, before the connection is shared with other threads; the rest is confined to `queue`.
    let link: Mutex<Link>
    /// The connection that may be interrupted; nil when it is about to close. It is separate from `link`, because `link` is
    /// locked as long as a connection is being opened.
    let interruptible: Mutex<DatabaseQueue?>
    /// The connection of a raw handle that has the turn (rule U1).
    let borrower = Mutex<RawConnection?>(nil)
    let openConnection: @Sendable () throws -> DatabaseQueue
    let observers = AddedObservers()
    let path: String
    /// Registers the files before any connection is opened.
    private let lockedFiles: LockedFiles
    /// The files that this participant has open; nil: not compared.
    let files: DatabaseFiles?
    private(set) var seat: Seat?
    let busyHandler: BusyHandler
    /// nil on a connection that does not write.
    let checkpointer: Checkpointer?
    private let walHook = WalHook()
    private(set) var recorder: CommitRecorder?
    let gate: SuspensionGate
    let writeTransaction: WriteTransaction
    /// Runs parts of a transaction that can be undone alone. Confined to `queue`.
    package let savepoint: Savepoint
    private let emptyTransaction = EmptyTransaction()
    /// Empty on a connection that does not write.
    package let companions: [any WriteCompanion]
    /// nil for a schema without migrations.
    let watch: NewerSchemaWatch?
    var sight = NewerSchemaWatch.Sight()
    let lastMigration = ReusedQuery(NewerSchemaWatch.Mark.lastMigrationQuery)
    /// Reads the schema on a connection of its own (rule S10). Set once, before the connection is shared.
    var lookAside: (((Database) throws -> Void) throws -> Void)?
    private let schemaVersionStatement = ReusedQuery("PRAGMA main.schema_version")
    private var lastDataVersion: UInt32?
    private var lastSchemaVersion: Int32?
    private(set) var isClosing = false
    /// The visits of the accesses that have left a transaction open.
    private var visits: [UInt64] = []

    /// Opens the file, without changing its journal mode.
    ///
    /// - parameter mayCreate: whether the file may be created now. Later, when the connection is reopened, it never is: SQLite would remove
    ///   the `-wal` of a database that somebody is moving away.
    init(
        path: String,
        mayCreate: Bool,
        options: SharedDatabase.Options,
        gate: SuspensionGate,
        watch: NewerSchemaWatch? = nil,
        companions: [any WriteCompanion]
    ) throws {
        let busyHandler = BusyHandler(path: path, options: options, gate: gate)
        busyHandler.isSettingUp = true
        let writeTransaction = WriteTransaction(files: options.files, gate: gate)
        var configuration = options.connectionConfiguration(readonly: false)
        configuration.busyMode = .callback { busyHandler.next(tries: $0) }
        let checkpointer = Checkpointer(path: path, options: options, gate: gate)
        walHook.mainDidCommit = { checkpointer.noteCommit(framesInWAL: $0) }
        configuration.prepareDatabase { [walHook] db in
            try db.checkFileIsWritable(path)
            walHook.install(in: db)
            for companion in companions { try companion.install(in: db) }
            try db.leaveWalFilesWhenClosed()
            for (pragma, value) in options.syncing { try db.set(pragma, value) }
        }
        self.path = path
        lockedFiles = LockedFiles(ofDatabaseAt: path)
        files = options.files
        self.gate = gate
        self.writeTransaction = writeTransaction
        savepoint = Savepoint(in: writeTransaction)
        self.busyHandler = busyHandler
        self.companions = companions
        self.checkpointer = checkpointer
        self.watch = watch
        let opening = options.connectionOpening(path)
        let open: @Sendable (String) throws -> DatabaseQueue = { [configuration] name in
            try opening.queue(configuration, at: name, timeout: busyHandler.openingTimeout, gate: gate)
        }
        let existing = Onlooker.uri(path, "mode=rw")
        openConnection = { try open(existing) }
        let queue = try open(mayCreate ? path : existing)
        link = Mutex(Link(queue: queue))
        interruptible = Mutex(queue)
        queue.inDatabase(writeTransaction.install)
        gate.add(self)
        gate.add(checkpointer)
        writeTransaction.didContinue = {
            if gate.runningContinues() { gate.abort() }
            // The gate may have opened again, so that the write was not aborted.
            gate.abortIfUnprotected()
        }
        writeTransaction.didRollback = {
            for companion in companions { companion.didRollback() }
        }
        // The turn is released before observers fetch on this connection, so that other processes do not wait for that. `self` is
        // unowned because this is only called within a write, which keeps it alive.
        writeTransaction.didCommit = { [unowned self] db in
            // The version is recorded before an observer reads here and before another process can write, because a later version
            // would hide that process's commit.
            noteOwnCommit(db)
            gate.runningDidCommit()
            // The turn is kept for a step of the checkpointer that is needed. No step begins behind a closed gate (rule F4).
            let isClosed = gate.isClosed
            if isClosed || !checkpointer.isWriterInNeed(db) { seat?.releaseTurn(continuing: !isClosed) }
        }
    }

    /// Opens the connection that a read-only participant has in the writer's place. Writes on it fail with `SQLITE_READONLY`.
    init(
        readOnlyAt path: String,
        options: SharedDatabase.Options,
        gate: SuspensionGate,
        watch: NewerSchemaWatch? = nil
    ) throws {
        self.path = path
        self.watch = watch
        lockedFiles = LockedFiles(ofDatabaseAt: path)
        files = options.files
        self.gate = gate
        writeTransaction = WriteTransaction(files: options.files)
        savepoint = Savepoint(in: writeTransaction)
        self.busyHandler = BusyHandler(path: path, options: options, gate: gate)
        companions = []
        self.checkpointer = nil
        // SQLite opens the file read-only. GRDB must not know that, because it would not notify observers then.
        var configuration = options.readerConfiguration(path: path)
        configuration.readonly = false
        // The connection only reads, although GRDB calls its accesses writes.
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

    /// Finalizes the statements on the queue. GRDB closes the connection when the last reference to the queue ends, which can be on another
    /// thread at this moment, and SQLite closes it with the last statement: a connection without a mutex would be used by two threads.
    deinit {
        queue.unsafeReentrantWrite { _ in forgetConnection() }
    }

    func take(_ seat: Seat) {
        self.seat = seat
        for companion in companions { companion.participantDidJoin(as: seat.author) }
        checkpointer?.take(seat)
        busyHandler.seat = seat
    }

    /// Begins to announce commits to other processes. Call it when the database is in WAL mode.
    func recordCommits(for observatory: Observatory, keepsCommitted: Bool) {
        queue.inDatabase { db in
            busyHandler.isSettingUp = false
            let recorder = CommitRecorder(of: self, keepsCommitted: keepsCommitted, observatory: observatory)
            if recorder.install(in: db, hook: walHook) { writeTransaction.recorder = recorder }
            self.recorder = recorder
            checkpointer?.lookAtWAL(db)
        }
    }

    /// Whether the schema is the one that statements were compiled for. Call it on `queue`, right after a commit.
    func isSchemaKnown(_ db: Database) -> Bool {
        (try? db.schemaVersion()) == lastSchemaVersion && hasNoNewMigration(db)
    }

    /// Closes the connection, leaves the seat, and then empties the WAL if no other participant is left, or copies what is due
    /// (rules K11, K11a).
    ///
    /// - parameter mayCheckpoint: whether a checkpoint may be made.
    func close(mayCheckpoint: Bool) throws {
        var owesCheckpoint = false
        if let queue = settleForClosing() {
            queue.inDatabase { db in
                owesCheckpoint = mayCheckpoint && checkpointer?.owesCheckpoint(db) == true
                forgetConnection()
            }
            do {
                try OwnConnection.close(queue)
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
        // This check comes after leaving, so that of several participants that close at the same moment, at least one finds no
        // other.
        let isLastOut = block?.hasLivingParticipant() != true
        if mayCheckpoint, isLastOut, checkpointer?.emptyWAL(block) == true {
            block?.setCheckpointFailure(nil)
        } else if owesCheckpoint {
            checkpointer?.settle(block)
        }
        checkpointer?.link.close()
    }

    /// Prepares the connection for closing. Call it on the queue of the connection. Accesses that come before the end take no
    /// turn, and compile no statement that would keep the connection open.
    func forgetConnection() {
        isClosing = true
        // A connection that closes must not be interrupted.
        interruptible.withLock { $0 = nil }
        writeTransaction.forgetStatements()
        savepoint.forgetStatements()
        emptyTransaction.forgetStatements()
        schemaVersionStatement.forget()
        lastMigration.forget()
    }

    /// Uses the connection again after it could not be closed. Call it on the queue of the connection.
    func keepConnection(_ db: Database) {
        isClosing = false
        let queue = queue
        interruptible.withLock { $0 = queue }
    }

    /// Begins to use a connection that replaces a closed one. Call it on the queue of the connection.
    func adopt(_ db: Database) throws {
        if recorder != nil {
            guard try db.explainingReadOnly(path, db.isInWALMode) else { throw DatabaseError.leftWAL(path) }
            try db.checkWalFilesAreWritable(path)
        }
        isClosing = false
        lastDataVersion = nil
        lastSchemaVersion = nil
        checkpointer?.lookAtWAL(db)
        writeTransaction.install(in: db)
        writeTransaction.recorder = recorder?.install(in: db, hook: walHook) == true ? recorder : nil
        observers.addAll(to: db)
    }

    /// Begins a transaction, checks that the schema and the fence admit writes, and runs `updates`. Call it on `queue`.
    func transaction(_ db: Database, _ updates: () throws -> Void) throws {
        if isClosing { throw DatabaseError.closed(path) }
        try writeTransaction.run(db) {
            try forgetSchemaIfChanged(db)
            try admitWrite()
            try updates()
        }
        // The commit may have taken longer than a look is valid, for example to sync the WAL (rule W12b).
        try files?.check()
    }

    /// Whether the transaction of `transaction` is open. Call it in its closure.
    func isTransactionOpen(_ db: Database) -> Bool { writeTransaction.isOpen(db) }

    // MARK: Turns

    /// Waits for the turn, runs `body`, and releases the turn. Call it on `queue`.
    ///
    /// - parameter requested: the time of the request, which is now.
    /// - parameter deadline: when the wait ends at the latest; nil: as the busy mode says.
    /// - parameter priority: the priority of the ticket (rule T3), which may change at any moment; nil: that of the participant.
    /// - returns: false when `body` was not run, because the gate closed during the wait.
    /// - throws: what `body` throws. Its `SQLITE_BUSY` names the holder of the lock.
    func withTurn(
        _ db: Database,
        at site: CallSite?,
        since requested: Nanoseconds,
        until deadline: Nanoseconds? = nil,
        cancellation: WaitCancellation? = nil,
        priority: () -> UInt8?,
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
            limit: busyHandler.turnLimit,
            isWriteLockFree: { !db.isWriting && db.isWriteLockFree(withThoseOf: gate) },
            priority: priority
        )
        if outcome == .timedOut { busyHandler.turnTimedOut() }
        if outcome == .cancelled, cancellation?.isCancelled != true {
            busyHandler.end()
            return false
        }
        defer {
            busyHandler.end()
            releaseTurn(db)
        }
        try namingObstacles(body)
        return true
    }

    /// Adds the holder of the lock to `SQLITE_BUSY`, and the path to the error of a full or failing disk. Call it within a turn on
    /// `queue`, or while the connection is being opened.
    package func namingObstacles<T>(_ body: () throws -> T) rethrows -> T {
        do {
            return try body()
        } catch let error as DatabaseError {
            throw named(error)
        }
    }

    func named(_ error: DatabaseError) -> any Error {
        if let files, let lost = files.explained(error) as? SharedDatabaseError { return lost }
        return switch error.resultCode {
        case .SQLITE_BUSY: busyHandler.named(error)
        // A read-only participant has no checkpointer. Its writes fail whatever the permissions.
        case .SQLITE_READONLY where checkpointer != nil: error.namingForbiddenFile(path)
        case .SQLITE_READONLY where ReadReplica.exists(databasePath: path): ReadReplica.refusal(databasePath: path)
        default: error.namingFile(path)
        }
    }

    /// Leaves the gate at the end of an access, unless its transaction is still open. Call it on `queue`.
    func leaveGate(_ visit: UInt64, _ db: Database, _ interruption: SuspensionGate.Interruption?) {
        if db.isWriting {
            visits += [visit]
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

    /// Whether a transaction could not begin since `beginAccess()`. Nothing has run then.
    var hasFailedToBegin: Bool { writeTransaction.hasFailedToBegin }

    /// Rolls back a transaction that an access has left open. Safe from any thread.
    func rollBackOpenTransaction() {
        // Without a connection, there is no transaction.
        interruptible.withLock { $0 }?.asyncWriteWithoutTransaction { [self] db in
            guard !visits.isEmpty, gate.isAborted else { return }
            let isOpen = db.isInsideTransaction
            if isOpen { try? db.rollback() }
            // A user's statement that is still being stepped keeps the lock.
            if db.isWriting { return }
            seat?.releaseTurn(continuing: false)
            leaveGate(isOpen ? .rolledBack : nil)
        }
    }

    /// Ends an access whose statements did not run within `withTurn`. Call it on `queue`.
    func endAccess() { writeTransaction.endAccess() }

    /// Releases the turn at the end of an access. The commit of a transaction may have released it already.
    private func releaseTurn(_ db: Database) {
        writeTransaction.endAccess()
        // Rule W3: A transaction that a closure leaves open (`allowsUnsafeTransactions`) keeps the turn.
        if db.isWriting { return }
        // A failed statement that has accessed an FTS5 table can leave the connection reading until its next statement ends (seen
        // in SQLite 3.40.1, not in 3.53.4). Its next write would then fail immediately if other connections have committed.
        if !db.isWithoutTransaction { _ = try? db.schemaVersion() }
        endRecording()
        // The gate may have been closed while the observers of the commit ran. The write then counts as outside, and must not
        // begin a step (rule F4).
        if let checkpointer, checkpointer.isWriterInNeed(db), gate.runningMayBeginStep() { checkpointer.helpWriter(db) }
        seat?.releaseTurn(continuing: !gate.isClosed)
        // A checkpoint that the gate turns away is made when the gate opens.
        checkpointer?.beginIfNeeded(db)
    }

    /// Announces the commits of this turn that are not announced yet. If that must wait for a lock, it is not done: its transaction would hold
    /// this database's lock meanwhile. Call it on `queue`, within the turn.
    func endRecording() {
        busyHandler.attemptLimit = 2_000_000
        recorder?.endTurn()
        busyHandler.attemptLimit = nil
    }

    /// Notifies the observers of this connection of changes by other participants. Call it on `queue`.
    func notify(_ db: Database, _ tables: DatabaseChange.Tables) throws {
        if isClosing { return }
        // Inside a transaction, observers would be notified when it ends, and not at all when it is rolled back.
        if db.isInsideTransaction { throw DatabaseError(resultCode: .SQLITE_LOCKED) }
        try detectOtherCommits(db)
        try emptyTransaction.run(db) {
            try db.notifyChanges(in: tables)
            recorder?.forgetTables()
        }
    }

    /// Clears GRDB's schema cache if another process has changed the schema. Call it on `queue`. Outside of a transaction,
    /// commits of other processes are only visible after `detectOtherCommits`.
    func forgetSchemaIfChanged(_ db: Database) throws {
        let counter = recorder?.commitCounter
        if let version = dataVersion(db), version == lastDataVersion {
            recorder?.lookedAtSchema(at: counter)
            return
        }
        // GRDB's function takes several times as long, but reports why it fails.
        let known = schemaVersionStatement.value(db)
        if known == nil { try db.throwIfLockedOut() }
        let schemaVersion = try known ?? db.schemaVersion()
        try lookAtMigrations(db, schemaVersion)
        if lastSchemaVersion != schemaVersion {
            db.clearSchemaCache()
            try recorder?.learnSchema(db)
            for companion in companions { companion.schemaDidChange() }
        }
        lastSchemaVersion = schemaVersion
        recorder?.lookedAtSchema(at: counter)
    }

    /// Detects commits of other processes, and prepares the companions. Call it on `queue`, outside of a transaction.
    func prepareOutsideTransaction(_ db: Database) {
        // If this check fails, the next write fails for the same reason and reports it. The companions would fail, too, and perhaps after
        // 10 s each, for which SQLite tries to begin a read.
        guard (try? detectOtherCommits(db)) != nil else { return }
        prepareCompanions(db)
    }

    /// Lets the companions prepare a write. Call it on `queue`, after `forgetSchemaIfChanged` or `detectOtherCommits`.
    func prepareCompanions(_ db: Database) {
        if isClosing || refusesWrites { return }
        let mayHaveChangedSchema = recorder?.mayHaveChangedSchema
        for companion in companions { companion.prepare(db, schemaVersion: schemaVersionStatement) }
        // SQLite reports a temporary trigger on a table of the main database as a change of that database's schema.
        if let recorder, recorder.mayHaveChangedSchema, mayHaveChangedSchema == false,
            let lastSchemaVersion, schemaVersionStatement.value(db) == lastSchemaVersion
        {
            recorder.schemaIsUnchanged()
        }
    }

    /// Begins and ends a read, which detects the commits of other connections since.
    func detectOtherCommits(_ db: Database) throws {
        if isClosing || db.isInTransaction || recorder?.knowsPresentSchema == true { return }
        lastDataVersion = nil
        try forgetSchemaIfChanged(db)
    }

    /// Records the data version after an own commit, because own commits change it too. Call it on `queue`, right after the
    /// commit.
    func noteOwnCommit(_ db: Database) {
        lastDataVersion = dataVersion(db)
    }

    /// SQLite's data version. It changes with each commit that this connection has seen: its own, and at the beginning of a
    /// transaction those of other connections. It is one field of the pager, so reading it costs less than a statement. nil when
    /// SQLite does not provide it.
    func dataVersion(_ db: Database) -> UInt32? {
        guard let connection = db.sqliteConnection else { return nil }
        var version: UInt32 = 0
        let code = sqlite3_file_control(connection, "main", SQLITE_FCNTL_DATA_VERSION, &version)
        return code == SQLITE_OK ? version : nil
    }
}
