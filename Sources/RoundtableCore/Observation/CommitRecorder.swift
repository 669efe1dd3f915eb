import GRDB
import GRDBSQLite
import RoundtableKernel

/// Announces the commits of the writer connection in the change ring, with the tables they touch (rules R1, R2, R7).
///
/// Before each statement, GRDB asks its observers which kinds of events they are interested in. The recorder takes the tables from that
/// question, and an observer that is interested in no event costs nothing per row and keeps SQLite's fast `DELETE FROM table`. It also
/// learns of `WITHOUT ROWID` and virtual tables, for which SQLite reports no rows. `WriteTransaction` is that observer. The recorder is
/// confined to the writer's queue.
final class CommitRecorder {
    /// A commit of this connection.
    struct Commit {
        /// The value of the commit counter after this commit.
        let counter: UInt32
        let touched: TouchedTables
        /// Whether the change ring has a record of it.
        let isPublished: Bool
        /// Whether another connection of this process has made it, so that GRDB has not notified the writer's observers.
        var isElsewhere = false

        var tables: DatabaseChange.Tables { touched.changed }
    }

    // The connection is alive whenever it commits.
    private unowned let writer: WriterConnection
    private let seat: Seat?
    /// nil for a schema without migrations.
    private let watch: NewerSchemaWatch?
    /// Is notified of the commits.
    weak var observatory: Observatory?
    private var connection: OpaquePointer?
    var index: WalIndex?
    var publisher: ChangePublisher?
    private var isHooked = false

    /// Swift does not check that accesses to it are exclusive: such checks were 6 % of a small write. No access calls code that has
    /// another.
    @exclusivity(unchecked) var tables = TouchedTables()
    /// The value of the commit counter after the commit in progress; nil when there is none.
    private var expected: UInt32?
    private var hasCommittedAside = false
    /// Tables of attached databases that were written without the main database's lock; announced when the turn ends.
    private var asideTables: [String] = []
    private var isAsideUnknown = false
    /// The tables of the commits since `takeCommitted()`, for the database whose turns this one takes; nil without commits.
    private var committed: DatabaseChange.Tables?
    let keepsCommitted: Bool
    /// The tables that a write to some tables may change, for the present schema.
    var tablesByNames: [Set<String>: TouchedTables] = [:]
    private var hasChangedSchema = false
    /// The commit counter up to which the schema is known. Statements that were compiled for that schema report all tables that they may
    /// write. A later commit of another connection may have added a trigger.
    private var knownUpTo: UInt32?
    private var hasMetOthers = false
    private var lastCommit: UInt32?
    private var hasMigrated = false
    private var isAnnouncing = false
    private var hasReservedUnseen = false
    /// The commit counter before the commit for which a record is reserved.
    private var unseenBefore: UInt32 = 0
    /// SQLite's count of changed rows, at the last commit.
    private var changesBefore: Int32 = 0

    /// - parameter keepsCommitted: whether `takeCommitted()` is called.
    init(of writer: WriterConnection, keepsCommitted: Bool, observatory: Observatory) {
        self.writer = writer
        seat = writer.seat
        watch = writer.watch
        self.keepsCommitted = keepsCommitted
        self.observatory = observatory
    }

    /// Starts to record the commits of a connection, which replaces an earlier one. Call it on the connection's queue, once the database
    /// is in WAL mode.
    ///
    /// - returns: whether the recorder is to be notified of what the connection writes.
    func install(in db: Database, hook: WalHook) -> Bool {
        guard let index = WalIndex(db) else { return false }
        begin(with: db, index)
        if isHooked { return true }
        isHooked = true
        let note = hook.mainDidCommit
        hook.mainDidCommit = { [unowned self] frames in
            note(frames)
            settle(.committed)
        }
        hook.attachedDidCommit = { [unowned self] in hasCommittedAside = true }
        return true
    }

    /// Resets the state, because nothing is known of what this connection has done, nor of the schema.
    private func begin(with db: Database, _ index: WalIndex) {
        self.index = index
        connection = db.sqliteConnection
        expected = nil
        hasCommittedAside = false
        hasChangedSchema = false
        hasMigrated = false
        knownUpTo = nil
        hasMetOthers = false
        lastCommit = nil
        changesBefore = sqlite3_total_changes(connection)
        tables.removeAll()
    }

    /// The present commit counter. Read it before the schema, and pass it to `lookedAtSchema` after that.
    var commitCounter: UInt32? { index?.commitCounter }

    /// Whether no connection has committed since the schema was last looked at, but this one.
    var knowsPresentSchema: Bool { knownUpTo != nil && knownUpTo == commitCounter }

    /// Notes that the schema is known up to the commit with this counter. Call it on the connection's queue.
    func lookedAtSchema(at counter: UInt32?) { knownUpTo = counter }

    /// Reads which tables are shadow tables. Call it on the connection's queue when the schema may have changed.
    func learnSchema(_ db: Database) throws {
        tablesByNames = [:]
        tables.shadows = try TouchedTables.shadows(db)
    }

    /// Whether a statement of this turn may have changed the schema.
    var mayHaveChangedSchema: Bool { tables.isSchemaChanged }

    /// Notes that the statements so far have not changed the schema.
    func schemaIsUnchanged() { tables.isSchemaChanged = false }

    /// Forgets the collected tables. `notifyChanges` names tables to observers that this connection has not written.
    func forgetTables() { tables.removeAll() }

    /// Called when a turn ends, outside of a transaction.
    func endTurn() {
        // An announced commit may never have been made.
        settle(.void)
        // Statements that failed may have left tables.
        tables.removeAll()
        guard owesAnnouncement else { return }
        // Records are reserved under the main database's lock. If another connection holds it, or that of an attached database, which
        // this would lock too, the tables wait for the end of another turn.
        guard sqlite3_exec(connection, "BEGIN IMMEDIATE", nil, nil, nil) == SQLITE_OK else { return }
        asideTables.forEach { tables.insert($0) }
        if isAsideUnknown { tables.mayBeMore = true }
        // This transaction writes nothing, so it must not be refused.
        isAnnouncing = true
        defer { isAnnouncing = false }
        // The commit hook reserves the record. A gate that closes may veto the commit.
        guard sqlite3_exec(connection, "COMMIT", nil, nil, nil) == SQLITE_OK else {
            if sqlite3_get_autocommit(connection) == 0 { sqlite3_exec(connection, "ROLLBACK", nil, nil, nil) }
            return
        }
        asideTables = []
        isAsideUnknown = false
        settle(.aside)
    }

    /// Whether commits to attached databases are not announced yet.
    var owesAnnouncement: Bool { !asideTables.isEmpty || isAsideUnknown }

    /// Notes a commit of another connection to an attached database. It is announced when the turn ends.
    func noteAside(_ changed: DatabaseChange.Tables) {
        switch changed {
        case .fullDatabase: isAsideUnknown = true
        case .some(let names): asideTables += names.subtracting(asideTables)
        }
    }

    /// - returns: the tables of the commits since the last call; nil without commits.
    func takeCommitted() -> DatabaseChange.Tables? {
        defer { committed = nil }
        return committed
    }

    func keep(_ changed: DatabaseChange.Tables) { committed = committed?.union(changed) ?? changed }

    // MARK: Transactions

    /// Called before a statement that may write a table.
    func willWrite(_ table: String) { tables.insert(table) }

    /// Called in SQLite's commit hook.
    ///
    /// - throws: why the transaction must not be committed.
    func willCommit() throws {
        hasCommittedAside = false
        // GRDB also calls this for empty transactions, and a transaction may write attached databases alone. Neither needs a record here.
        guard let connection, sqlite3_txn_state(connection, "main") == SQLITE_TXN_WRITE else { return }
        guard let counter = index?.commitCounter else { return }
        if !isAnnouncing { try writer.admitCommit(knownUpTo == counter) }
        expected = counter &+ 1
        if !hasMigrated, tables.names.contains("grdb_migrations") {
            hasMigrated = true
            watch?.isMigrating = true
        }
        hasChangedSchema = hasChangedSchema || tables.isSchemaChanged
        // Of commits that are announced, it was known when they were made.
        if !isAnnouncing, knownUpTo != counter { tables.mayBeMore = true }
        reserve(counter, tables.areUnknown ? nil : tables.names)
    }

    /// Reserves the record of the commit after `counter`, if there is a seat.
    func reserve(_ counter: UInt32, _ names: [String]?) {
        guard let participant = seat?.writingParticipant, participant.isSeated else {
            publisher = nil
            return
        }
        if publisher?.participant !== participant { publisher = ChangePublisher(participant) }
        publisher?.reserve(counter: counter, tables: names, now: MonotonicClock.now)
    }

    /// Called with the WRITE lock, before a commit of which SQLite calls no hook.
    ///
    /// - throws: why it must not be made.
    func admitUnseen() throws {
        guard let counter = index?.commitCounter else { return }
        try writer.admitCommit(knownUpTo == counter)
    }

    /// Reserves the record of such a commit, immediately before it.
    func willCommitUnseen() {
        guard !hasReservedUnseen, let counter = index?.commitCounter else { return }
        reserve(counter, nil)
        hasReservedUnseen = publisher?.hasReserved == true
        unseenBefore = counter
    }

    /// Settles the record, whether the commit was made or not. The observers of this connection have not seen it either, so it has no author
    /// whom they would take for themselves.
    func didEndUnseen() {
        knownUpTo = nil
        guard hasReservedUnseen else { return }
        hasReservedUnseen = false
        if keepsCommitted { keep(.fullDatabase) }
        publisher?.settle(index?.commitCounter == unseenBefore ? .void : .unsure)
    }

    func didCommit(_ db: Database) {
        if hasMigrated {
            hasMigrated = false
            writer.noteOwnMigrations(db)
        }
        defer {
            if hasChangedSchema {
                hasChangedSchema = false
                // If this fails, the shadow tables of a new virtual table are not reported.
                try? learnSchema(db)
            }
        }
        if knownUpTo == nil || hasMetOthers {
            hasMetOthers = false
            if writer.isSchemaKnown(db) { knownUpTo = lastCommit }
        }
        let isAside = hasWrittenToAttached(db) || hasCommittedAside
        guard let expected else {
            if isAside {
                asideTables += tables.names
                isAsideUnknown = isAsideUnknown || !knowsPresentSchema
            }
            return tables.removeAll()
        }
        // SQLite has not called the WAL hook for the main database, because the hook would have settled the record.
        if isAside {
            settle(.aside)
        } else if index?.commitCounter == expected &- 1 {
            settle(.void)
        } else {
            // Either another connection has committed, or this one has and its WAL hook was replaced.
            settle(.unsure)
        }
    }

    func didRollback() {
        if hasMigrated {
            hasMigrated = false
            watch?.isMigrating = false
        }
        if expected != nil { settle(.void) } else { tables.removeAll() }
    }

    private func settle(_ state: ChangeRecord.State) {
        guard let expected else { return }
        self.expected = nil
        if state == .committed {
            hasMetOthers = knownUpTo != expected &- 1
            lastCommit = expected
            if !hasMetOthers { knownUpTo = expected }
        }
        // Own observers are notified first, because the news wake other threads, which use the processors.
        if state != .void {
            if keepsCommitted { keep(tables.changed) }
            let isPublished = publisher?.hasReserved == true
            observatory?.didCommit { Commit(counter: expected, touched: tables, isPublished: isPublished) }
        }
        publisher?.settle(state)
        tables.removeAll()
    }

    /// Whether attached databases may have been written. SQLite calls no hook for those that are not in WAL mode.
    private func hasWrittenToAttached(_ db: Database) -> Bool {
        let changes = sqlite3_total_changes(connection)
        defer { changesBefore = changes }
        guard changes != changesBefore || tables.isSchemaChanged else { return false }
        // The rows were those of a commit to the main database, which the WAL hook has settled.
        if expected == nil, tables.names.isEmpty { return false }
        return db.hasAttachedDatabases
    }
}

/// The tables that the statements of a transaction may write.
struct TouchedTables {
    private(set) var names: [String] = []
    var isSchemaChanged = false
    /// Whether the statements may write tables that they do not report.
    var mayBeMore = false

    /// The shadow tables of each virtual table, which hold its content. They are written without a statement of this connection's user
    /// (<https://www.sqlite.org/vtab.html#xshadowname>).
    fileprivate var shadows: [String: [String]] = [:]

    /// Whether there may be tables that are not among `names`.
    var areUnknown: Bool { names.isEmpty || isSchemaChanged || mayBeMore }

    /// The tables as observers see them.
    var changed: DatabaseChange.Tables { areUnknown ? .fullDatabase : DatabaseChange.Tables(touching: names) }

    mutating func insert(_ name: String) {
        // The statements of a transaction often write the same table.
        if names.last == name || names.contains(name) { return }
        switch name {
        case "sqlite_master", "sqlite_schema":
            isSchemaChanged = true
        case "sqlite_temp_master", "sqlite_temp_schema":
            return
        default:
            names.append(name)
            if let shadows = shadows[name] { names += shadows }
        }
    }

    mutating func removeAll() {
        names.removeAll(keepingCapacity: true)
        isSchemaChanged = false
        mayBeMore = false
    }

    /// Reads which tables are shadow tables.
    fileprivate static func shadows(_ db: Database) throws -> [String: [String]] {
        let sql = """
            SELECT virtual.name, shadow.name FROM sqlite_master AS virtual
            JOIN sqlite_master AS shadow ON shadow.name LIKE replace(virtual.name, '_', '\\_') || '\\_%' ESCAPE '\\'
            WHERE virtual.sql LIKE 'CREATE VIRTUAL TABLE%' AND shadow.type = 'table'
            """
        let shadows: [String: [String]] = try Row.fetchAll(db, sql: sql).reduce(into: [:]) {
            $0[$1[0], default: []].append($1[1])
        }
        // SQLite connects a virtual table when the first statement that names it is compiled, and then reports sqlite_master to the
        // authorizer. This would count as a change of the schema each time the statement runs, so each table is connected here. A table
        // that cannot be connected here cannot be connected there either.
        for table in shadows.keys { _ = try? db.makeStatement(sql: "SELECT 1 FROM main.\(table.sqlName) LIMIT 0") }
        return shadows
    }
}

extension DatabaseEventKind {
    var tableName: String {
        switch self {
        case .insert(let tableName), .delete(let tableName), .update(let tableName, _): tableName
        }
    }
}
