import Foundation
import GRDB
import GRDBSQLite
import RoundtableCore
import RoundtableFiles
import RoundtableKernel

extension DatabaseStatus {
    /// Inspects a database from outside: which processes share it, write or wait, and what state its files are in.
    ///
    /// The inspection creates and changes no file, and takes no place in the control block and no turn. It works on any SQLite database,
    /// shared through Roundtable or not, and also in a process that has the database open.
    ///
    /// - Parameters:
    ///   - url: the URL of the database.
    ///   - outbox: the folder of ``SharedDatabase/Options/outboxFolder``; nil: beside the database.
    /// - throws: ``SharedDatabaseError`` when there is no such file, or it cannot be a database; `DatabaseError` with
    ///   `SQLITE_NOTADB` or `SQLITE_CANTOPEN`; ``OutboxError`` when no outbox can be at that place. What else cannot be found out is in
    ///   ``unknowns``.
    public init(ofDatabaseAt url: URL, outboxFolder outbox: URL? = nil) throws {
        try self.init(ofDatabaseAt: url, outboxFolder: outbox, reading: nil)
    }

    /// Inspects a database like ``init(ofDatabaseAt:outboxFolder:)``, and lets `reading` read in the same transaction.
    ///
    /// - parameter content: what an earlier look has read, for views that look again and again.
    package init(
        ofDatabaseAt url: URL,
        outboxFolder outbox: URL?,
        reading: FurtherReading?,
        knowing content: UnattendedContent? = nil
    ) throws {
        let onlooker = try Onlooker(url)
        var status = DatabaseStatus(
            path: onlooker.path,
            sqliteVersion: String(cString: sqlite3_libversion()),
            sqliteHasWALResetBug: SQLiteVersion.current.hasWALResetBug,
            journalMode: onlooker.header?.isWAL == true ? .wal : .rollback,
            pageSize: onlooker.header?.pageSize,
            isEncrypted: onlooker.header?.isEncrypted == true,
            files: DatabaseStatus.Files(
                database: onlooker.size,
                wal: onlooker.companions.wal,
                walIndex: onlooker.companions.walIndex,
                rollbackJournal: onlooker.companions.rollbackJournal,
                salt: onlooker.companions.salt
            ),
            controlBlock: DatabaseStatus.ControlBlockStatus(
                path: ControlBlock.path(forDatabaseAt: onlooker.path),
                state: .absent
            )
        )
        // Participants and the write lock come first, because reading the database may have to wait for the owner of that lock.
        let (block, snapshots) = status.lookAtControlBlock()
        status.otherControlBlocks = RoundtableKernel.OtherControlBlock.all(besideDatabaseAt: onlooker.path).map {
            DatabaseStatus.OtherControlBlock(path: $0.path, layoutVersion: Int($0.version), pids: $0.pids)
        }
        status.lookAtWriteLock()
        // The locks are listed before the onlooker reads, because it then holds a lock itself.
        let locks = SystemLocks.walLocks(databasePath: onlooker.path)
        let (state, letters) =
            content?.recall(&status, onlooker)
            ?? WalIndexGate.look { status.lookIntoDatabase(onlooker, block, reading, content) } ?? status.nothingSeen()
        if let state {
            status.wal = WALHealth(
                state,
                locks: locks,
                databasePath: onlooker.path,
                block: block,
                participants: snapshots
            )
        }
        status.replication = ReplicationStatus(
            ofDatabaseAt: onlooker.path,
            participants: status.participants,
            readers: locks?.readers ?? []
        )
        status.replica = ReplicaStatus(ofDatabaseAt: onlooker.path, participants: status.participants)
        status.fence = FenceStatus(ofDatabaseAt: URL(fileURLWithPath: onlooker.path))
        status.explainMissingWAL(onlooker)
        status.oldestReads(of: snapshots, endOfWAL: state?.end)
        let folder = try Self.outboxFolder(outbox, besideDatabaseAt: onlooker.path)
        status.lookAtOutbox(folder, letters)
        let travels = OutboxTravelStatus.all(inOutboxAt: folder.path)
        status.outboxTravel = travels.isEmpty ? nil : travels
        self = status
    }

    /// What a module reads of a database that is inspected, and of which this one does not know.
    package struct FurtherReading {
        /// What is read, as the beginning of a sentence in ``DatabaseStatus/unknowns``.
        let subject: String
        /// Called in a read transaction, unless the content cannot be read. Its error becomes one of the unknowns.
        let read: (Database) throws -> Void

        package init(of subject: String, _ read: @escaping (Database) throws -> Void) {
            (self.subject, self.read) = (subject, read)
        }
    }

    /// - parameter folder: the folder of ``SharedDatabase/Options/outboxFolder``; nil: beside the database.
    static func outboxFolder(_ folder: URL?, besideDatabaseAt path: String) throws -> OutboxFolder {
        try folder.map { try OutboxFolder(at: $0, databasePath: path) } ?? OutboxFolder(databasePath: path)
    }
}

extension DatabaseStatus {
    fileprivate mutating func lookAtControlBlock() -> (ControlBlock?, [ParticipantRecord]) {
        do {
            let block = try ControlBlock.open(forDatabaseAt: path, writable: false)
            controlBlock.state = .usable
            controlBlock.layoutVersion = Int(Layout.version)
            let snapshots = block.participants()
            let files = FileStamps(ofDatabaseAt: path)
            participants = snapshots.map { ParticipantStatus($0, in: files) }
            return (block, snapshots)
        } catch {
            controlBlock.problem = error.description
            switch error {
            case .absent:
                controlBlock.state = .absent
                return (nil, [])
            case .damaged, .full: controlBlock.state = .damaged
            case .locked, .system, .foreign, .shared: controlBlock.state = .unreadable
            }
            unknowns.append(DatabaseDiagnosis.sentence("The participants: \(error)"))
            return (nil, [])
        }
    }

    fileprivate mutating func lookAtWriteLock() {
        writeLock = Self.writer(ofDatabaseAt: path, among: participants)
        let obstructions = ObstructingLock.all(databasePath: path)
        obstructingLocks = obstructions.isEmpty ? nil : obstructions
        #if !os(Linux)
            if writeLock == nil { unknowns.append("The holder of SQLite's write lock: this system lists no locks.") }
        #endif
    }

    /// The holder of the write lock, from the system's list of locks, or else from what participants show in the control block. The list
    /// leaves out the processes of other pid namespaces, except for those below.
    package static func writer(ofDatabaseAt path: String, among participants: [ParticipantStatus]) -> SharingProcess? {
        let participants = participants.filter { $0.liveness != .dead }
        guard let pid = SystemLocks.writer(databasePath: path) else {
            var writing = participants.filter { $0.writing != nil }
            #if os(Linux)
                writing = writing.filter(\.isInOtherPIDNamespace)
            #endif
            return writing.max { ($0.writingSeconds ?? 0) < ($1.writingSeconds ?? 0) }?.party
        }
        let own = participants.filter { $0.isProcess(pid) }
        if let participant = own.first(where: { $0.writing != nil }) ?? own.first { return participant.party }
        return SharingProcess(pid: pid, among: [])
    }

    /// Notes that the database was not read, because this process was opening databases all the time.
    fileprivate mutating func nothingSeen() -> (WalIndexView.State?, OutboxStatus.DeadLetters?) {
        unknowns.append(
            "The content, and how much of the WAL is copied: this process was opening a database for a second. Look again when it is open."
        )
        return (nil, nil)
    }

    /// - returns: the state of the WAL, and the dead letters of the outbox; each is nil when it cannot be read.
    fileprivate mutating func lookIntoDatabase(
        _ onlooker: Onlooker,
        _ block: ControlBlock?,
        _ further: FurtherReading?,
        _ content: UnattendedContent?
    ) -> (WalIndexView.State?, OutboxStatus.DeadLetters?) {
        var state: WalIndexView.State?
        var letters: OutboxStatus.DeadLetters?
        var problems: [String] = []
        if isEncrypted {
            unknowns.append("The content, and how much of the WAL is copied: the database is encrypted.")
            return (nil, nil)
        }
        let known = unknowns.count
        let version = content.flatMap { _ in UnattendedContent.Version(onlooker) }
        do {
            let queue = try onlooker.connection(waitingUpTo: .milliseconds(250))
            schema = try queue.read { db in
                func read(_ subject: String, _ body: () throws -> Void) {
                    do { try body() } catch { problems.append("\(subject): \(Self.reason(error, files))") }
                }
                state = onlooker.walState(db)
                read("The dead letters of the outbox") { letters = try .init(db, path: onlooker.path) }
                read("The derived tables") { derivedTables = try DerivedTablesStatus(db) }
                read("The roles") { roles = try RoleStatus.all(db, block, path: onlooker.path) }
                if let further { read(further.subject) { try further.read(db) } }
                return try SchemaVersion(db)
            }
            try queue.close()
        } catch {
            unknowns.append("The schema: \(Self.reason(error, files))")
            if let error = error as? DatabaseError, [.SQLITE_CORRUPT, .SQLITE_NOTADB].contains(error.resultCode) {
                damage = error.message ?? "malformed"
            }
        }
        unknowns += problems
        if state == nil, damage == nil {
            content?.remember(self, version, onlooker, letters, unknowns: unknowns[known...])
        }
        return (state, letters)
    }

    fileprivate mutating func explainMissingWAL(_ onlooker: Onlooker) {
        guard journalMode == .wal, wal == nil, !isEncrypted else { return }
        if onlooker.missesWAL {
            unknowns.append(
                """
                The WAL: it holds \(files.wal ?? 0) bytes and there is no -shm file, as after a crash. What is shown is \
                the state before it; the next process that opens the database recovers it.
                """
            )
        } else if (files.wal ?? 0) > 0 {
            unknowns.append(
                "How many frames the WAL holds: no process has the database open, and without one the -shm file, which has that number, cannot be trusted. The next process that opens the database and closes it copies the frames into the database file."
            )
        } else {
            wal = WALHealth(committedFrames: 0, backfilledFrames: 0, size: 0)
        }
    }

    /// Adds the oldest reads of participants. A dead participant holds nothing back, because SQLite's locks ended with its process.
    fileprivate mutating func oldestReads(of snapshots: [ParticipantRecord], endOfWAL: WalMark?) {
        let now = MonotonicClock.now
        for (index, snapshot) in snapshots.enumerated() where snapshot.liveness != .dead {
            guard let read = snapshot.oldestRead else { continue }
            let age = Duration.nanoseconds(Int64(clamping: now.subtractingSaturating(read.since)))
            let held = endOfWAL.map(read.mark.framesHeld)
            participants[index].oldestRead = ParticipantStatus.Read(
                age: age,
                heldFrames: held,
                isPastLimit: LongRead.Limit().isPassed(age: age, heldFrames: held ?? 1),
                callSite: snapshot.readCallSite
            )
        }
        if endOfWAL == nil, participants.contains(where: { $0.oldestRead != nil }) {
            unknowns.append("How many frames reads hold back: the end of the WAL is not known.")
        }
    }

    private static func reason(_ error: any Error, _ files: Files) -> String {
        guard let error = error as? DatabaseError else { return DatabaseDiagnosis.sentence("\(error)") }
        switch error.resultCode {
        case .SQLITE_BUSY:
            return "the database is locked."
        case .SQLITE_READONLY where files.rollbackJournal != nil,
            .SQLITE_CANTOPEN where files.rollbackJournal != nil:
            return "a transaction was interrupted by a crash: the next writer rolls it back from the -journal file."
        default:
            return "\(error.message ?? "unknown error") (\(error.extendedResultCode))."
        }
    }
}

extension DatabaseStatus.SchemaVersion {
    init(_ db: Database) throws {
        userVersion = try Int.fetchOne(db, sql: "PRAGMA user_version") ?? 0
        let names = try String.fetchAll(db, sql: "SELECT name FROM sqlite_master WHERE type = 'table'")
        let isOwn = { (name: String) in name.hasPrefix("roundtable_") }
        tableCount = names.count {
            !$0.lowercased().hasPrefix("sqlite_") && !InternalTables.isInternal($0) && !isOwn($0)
        }
        roundtableTableCount = names.count(where: isOwn)
        appliedMigrations =
            try db.tableExists("grdb_migrations")
            ? String.fetchAll(db, sql: "SELECT identifier FROM grdb_migrations ORDER BY rowid") : nil
    }
}
