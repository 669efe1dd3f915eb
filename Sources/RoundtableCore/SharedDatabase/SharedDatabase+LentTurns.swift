import GRDB
import RoundtableGate
import RoundtableKernel
import Synchronization

// Rule W14: A database that takes the turns of another one (`turnsOf`) has a seat at that one's control block (T14), for the turn alone. It
// takes no lock of the other file for its writes. What it has committed is announced as an aside commit of the other database (R2), in a turn
// of that one's participant in the same process, if that has a database attached; commits that come meanwhile are announced together. If the
// process dies before, or closes the other database, observers of that one learn of the commits with the next one. The gates are requested to
// close and to open together, and are protected together. An announcement waits for locks for 2 ms, and is tried again within a second.

extension SharedDatabase.Options {
    /// Another database of this process, with whose turns this one is written. nil, the default: this one has turns of its own alone.
    ///
    /// It is for two files that are written in one transaction by some connections (`ATTACH`), and separately by others. With the same
    /// turns, neither waits for the other at SQLite's locks. Both are suspended together. See
    /// <doc:WritesAndCheckpoints#A-second-database>.
    public var turnsOf: SharedDatabase? {
        get { features[Lender.self]?.database }
        set { features[Lender.self] = newValue.map { Lender(database: $0) } }
    }
}

/// It is among the values of features, because options are copied often, and few have one.
private struct Lender: Sendable {
    let database: SharedDatabase
}

extension SharedDatabase {
    /// Why a write of this database cannot take the turn of the other one here; nil when it can.
    var turnRefusal: Refusal? {
        guard let lender else { return nil }
        let writing = lender.lenders.first { Access.isWriting($0) }
        return writing.map { .failed(DatabaseError.turnIsTaken(path, $0.path)) }
    }

    /// - throws: if opening the database at `path` with the turns of this one could wait for its own thread, or if this one is not open.
    func checkMayLend(to path: String) throws {
        if role == .readOnly { throw DatabaseError.turnsCannotBeLent(path, self.path) }
        for lender in lenders {
            try lender.checkOpen()
            if Access.isWriting(lender) { throw DatabaseError.turnIsTaken(path, lender.path) }
        }
    }

    /// This database, and those whose turns it takes.
    var lenders: some Sequence<SharedDatabase> { sequence(first: self, next: \.lender) }

    /// Announces commits to a database that takes the turns of this one, to observers of this one in all processes. Safe from any thread.
    func announce(_ tables: DatabaseChange.Tables) {
        if tables.isEmpty { return }
        let isFirst = announcements.withLock { announcements in
            guard announcements.areNeeded else { return false }
            announcements.tables = announcements.tables?.union(tables) ?? tables
            return announcements.schedule()
        }
        if isFirst { announceSoon(Self.announcementBackoff) }
    }

    /// Announces commits of this database's own connection to attached ones, which its turn has not announced.
    func announceOwed() {
        if !isAnnouncingOver, announcements.withLock({ $0.schedule() }) { announceSoon(Self.announcementBackoff) }
    }

    private static var announcementBackoff: Backoff { Backoff(.milliseconds(50), upTo: .seconds(1)) }

    /// - parameter backoff: how long to wait before the next attempt if another connection holds SQLite's write lock.
    private func announceSoon(_ backoff: Backoff) {
        let write = Write(site: nil, waits: true, priority: .default)
        let failed: @Sendable (Database, any Error) -> Void = { [weak self] _, _ in self?.announcingFailed(backoff) }
        onWriterLater(write, failed: failed) {
            [weak self] db in
            guard let self, let recorder = writer.recorder else { return }
            // A connection that is being closed runs this, too, and without a turn.
            if writer.isClosing { return announcingFailed(backoff) }
            // Databases are attached when a connection is prepared.
            let areNeeded = db.hasAttachedDatabases
            let tables = announcements.withLock { announcements in
                announcements.areNeeded = areNeeded
                return announcements.take()
            }
            if areNeeded, let tables {
                recorder.noteAside(tables)
                observatory.notifyWriter(tables)
            }
            writer.endRecording()
            if recorder.owesAnnouncement { return announcingFailed(backoff) }
            if announcements.withLock({ !$0.finish() }) { announceSoon(Self.announcementBackoff) }
        }
    }

    private func announcingFailed(_ backoff: Backoff) {
        guard isAnnouncingOver else { return backoff.retry { [weak self] in self?.announceSoon($0) } }
        announcements.withLock { $0 = Announcements() }
    }

    /// Whether nobody observes the database here any more.
    private var isAnnouncingOver: Bool {
        isClosed.withLock { $0 } || gate.isShuttingDown || files.failure != nil || !isInOwnProcess
    }
}

/// The commits to databases that take the turns of another one, which that one's observers do not know of yet.
struct Announcements: Sendable {
    /// nil: there are none.
    var tables: DatabaseChange.Tables?
    /// Whether the other database has one attached.
    var areNeeded = true
    private(set) var isScheduled = false

    /// - returns: false when an announcement is scheduled already.
    mutating func schedule() -> Bool {
        defer { isScheduled = true }
        return !isScheduled
    }

    /// - returns: false when there is more to announce.
    mutating func finish() -> Bool {
        isScheduled = tables != nil
        return !isScheduled
    }

    mutating func take() -> DatabaseChange.Tables? {
        defer { tables = nil }
        return tables
    }
}

extension Database {
    /// Whether SQLite's write lock is free (rule T12), of this database and of the attached ones that take its turns (rule T14). Call it
    /// outside of transactions.
    func isWriteLockFree(withThoseOf gate: SuspensionGate) -> Bool {
        guard WalIndex(self)?.isWriteLockFree == true else { return false }
        // A write of this process may wait for a reader of this database, which waits for a barrier, which waits here.
        let borrowers = gate.withDependents.dropFirst().filter { $0.running == nil }.map(\.path)
        if borrowers.isEmpty { return true }
        do {
            let attached = try Row.fetchAll(self, sql: "SELECT name, file FROM pragma_database_list WHERE seq > 1")
            return try attached.allSatisfy { row in
                guard borrowers.contains(row["file"]) else { return true }
                let name: String = row["name"]
                // A connection maps the wal-index when it reads.
                _ = try Int.fetchOne(self, sql: "SELECT 1 FROM \(name.quotedDatabaseIdentifier).sqlite_master")
                return WalIndex(self, schema: name)?.isWriteLockFree == true
            }
        } catch {
            return false
        }
    }
}

extension DatabaseError {
    /// A database that is only read announces nothing.
    static func turnsCannotBeLent(_ path: String, _ lender: String) -> DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_MISUSE,
            message: """
                \(path) cannot take the turns of \(lender), which was opened for reading only. Nothing was opened. Open \(lender) with \
                open(), or \(path) with openReadOnly() or without turnsOf
                """
        )
    }

    fileprivate static func turnIsTaken(_ path: String, _ lender: String) -> DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_MISUSE,
            message: """
                \(path) takes the turns of \(lender), and was to be opened or written inside of a write of that one, which has the turn. Nothing \
                was done. Do it before or after, or attach \(path), and write both in one transaction
                """
        )
    }
}
