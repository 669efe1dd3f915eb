import Foundation
import GRDB
import GRDBSQLite
import RoundtableKernel
import Synchronization

/// One moment of a shared database, which many reads can see. `advance()` moves it to the latest commit.
///
/// ```swift
/// let snapshot = try await db.makeSnapshot()
/// let players = try await snapshot.read(Player.fetchAll)
/// let teams = try await snapshot.read(Team.fetchAll)   // of the same moment, whatever was committed meanwhile
/// let changes = try await snapshot.advance()           // what was committed, and by whom
/// ```
///
/// A snapshot has a connection of its own, and runs one access at a time, on any thread. It ends with `close()`, when its last reference
/// is released, and when its `SharedDatabase` is closed. It keeps the `SharedDatabase` alive.
///
/// While a snapshot stays at its moment, it holds checkpoints back: see <doc:ObservingChanges#Advance-or-close>.
public final class SharedDatabaseSnapshot: Sendable {
    private enum Phase: Equatable {
        case open
        /// There is no read transaction: moving to another moment failed, or a closure ended it.
        case adrift
        /// There is no connection: the database was suspended.
        case parked
        /// There is no connection: the moment became too old.
        case expired(age: Nanoseconds, limit: Nanoseconds)
        case closed
    }

    /// Advancing changes the state on the connection's queue. Closing the snapshot, or giving its connection up, changes it on any
    /// thread.
    private struct State {
        var phase = Phase.open
        /// nil when the snapshot is parked or expired.
        var connection: ReaderConnection?
        var cursor: CommitCursor
        /// The end of the WAL at the snapshot's moment; nil when that is not known.
        var mark: WalMark?
        /// When the snapshot's moment began.
        var since: Nanoseconds
        /// Whether the wal-index may have been rebuilt since the moment.
        var wasParked = false
    }

    /// The database that the snapshot reads.
    public let database: SharedDatabase

    /// Where the snapshot was made, as `File.swift:12`.
    package var callSite: String { "\(site.file):\(site.line)" }

    private let site: CallSite

    private let state: Mutex<State>

    init(_ database: SharedDatabase, at site: CallSite) throws {
        try database.checkProcess()
        self.database = database
        self.site = site
        try database.longReads.beginOpening()
        defer { database.longReads.endOpening() }
        let connection = try database.longReads.openConnection()
        let moment = try connection.queue.inDatabase { db in
            guard try db.isInWALMode() else {
                throw DatabaseError.snapshotNeedsWAL(database.path)
            }
            return try Moment(db, on: connection)
        }
        let cursor = CommitCursor(at: moment.earliest?.commitCounter) { [longReads = database.longReads] in
            longReads.controlBlock
        }
        state = Mutex(State(connection: connection, cursor: cursor, mark: moment.knownMark, since: moment.since))
        try database.longReads.began(self, moment.read, at: site)
    }

    deinit {
        let connection = state.withLock { $0.connection }
        guard database.isInOwnProcess else {
            // After `fork`, the child does not close the connection (rule W4).
            if let connection { _ = Unmanaged.passRetained(connection) }
            return
        }
        // SQLite keeps a connection open that has statements, and its transaction with it. So the transaction ends here.
        if let connection { connection.queue.unsafeReentrantRead { db in try? connection.end(db) } }
        database.longReads.ended(ObjectIdentifier(self))
    }

    /// Ends the snapshot; later accesses throw `SQLITE_MISUSE`. Waits for a running access to end.
    ///
    /// - throws: `SQLITE_BUSY` when one of the caller's statements or cursors is still alive. The snapshot then stays at its moment, and
    ///   can be read: release the statement, and close again.
    public func close() throws {
        try database.checkProcess()
        let connection = state.withLock { state in
            if state.connection == nil { state.phase = .closed }
            return state.connection
        }
        guard let connection else { return database.longReads.ended(ObjectIdentifier(self)) }
        do {
            // Closing the connection ends the read transaction. The transaction is not ended before, because the connection may fail to
            // close.
            try connection.close()
        } catch  where state.withLock({ $0.connection !== connection }) {
            // The connection was given up meanwhile.
            return try close()
        } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
            throw DatabaseError.cursorIsAlive(path, whenClosing: true)
        }
        state.withLock { $0.phase = .closed }
        database.longReads.ended(ObjectIdentifier(self))
    }

    // MARK: Connection

    /// - throws: an error if there is no connection.
    func connection() throws -> ReaderConnection {
        try state.withLock { state in
            if let connection = state.connection { return connection }
            throw lostConnection(state.phase, else: .parked(path))
        }
    }

    /// The connection with which to move to another moment. This opens one if there is none.
    func connectionToAdvance() throws -> ReaderConnection {
        if let connection = state.withLock({ $0.connection }) { return connection }
        try database.longReads.beginOpening()
        defer { database.longReads.endOpening() }
        return try state.withLock { state in
            if state.phase == .closed { throw DatabaseError.snapshotClosed(path, callSite) }
            if let connection = state.connection { return connection }
            let new = try database.longReads.openConnection()
            state.connection = new
            state.phase = .adrift
            return new
        }
    }

    public func interrupt() {
        guard database.isInOwnProcess else { return }
        state.withLock { $0.connection?.queue.interrupt() }
    }

    /// Gives the connection up, if there is one.
    func park() { _ = giveConnectionUp { _ in .parked } }

    /// Gives the connection up if its moment is as old as `limit`, or older.
    ///
    /// - returns: nil when the moment is younger, there is no connection, or the snapshot is closed.
    func expire(atAge limit: Nanoseconds) -> ConnectionClosing? {
        let now = MonotonicClock.now
        return giveConnectionUp { since in
            let age = now.subtractingSaturating(since)
            return age >= limit ? .expired(age: age, limit: limit) : nil
        }
    }

    /// - parameter phase: the new phase, for the time when the moment began; nil to keep the connection.
    private func giveConnectionUp(_ phase: (Nanoseconds) -> Phase?) -> ConnectionClosing? {
        // The closing begins under the lock, so that a suspension finds the connection with this snapshot or among those that close.
        let closing: ConnectionClosing? = state.withLock { state in
            guard state.phase != .closed, let connection = state.connection, let phase = phase(state.since) else {
                return nil
            }
            state.connection = nil
            state.phase = phase
            state.wasParked = true
            return database.longReads.close(connection, of: self)
        }
        if closing != nil { database.longReads.lost(self) }
        return closing
    }

    /// Whether the connection was given up because its moment was too old.
    func hasExpired(_ connection: ReaderConnection) -> Bool {
        state.withLock { state in
            if case .expired = state.phase { return state.connection !== connection }
            return false
        }
    }

    private func lostConnection(_ phase: Phase, else error: @autoclosure () -> DatabaseError) -> DatabaseError {
        switch phase {
        case .closed: .snapshotClosed(path, callSite)
        case .expired(let age, let limit): .expired(path, callSite, age: age, limit: limit)
        case .open, .adrift, .parked: error()
        }
    }

    /// Runs a read. If it is interrupted because the connection was given up, the error says why.
    func naming<T>(on connection: ReaderConnection, _ body: () throws -> T) throws -> T {
        do {
            return try body()
        } catch let error as DatabaseError where error.resultCode == .SQLITE_INTERRUPT {
            let (phase, isGivenUp) = state.withLock { ($0.phase, $0.connection !== connection) }
            guard isGivenUp, !error.isSuspension else { throw error }
            throw lostConnection(phase, else: .readInterrupted(path, sql: error.sql))
        }
    }

    // MARK: On the connection's queue

    /// Checks that the snapshot can be read. Each read begins with this.
    func enter(_ db: Database, _ connection: ReaderConnection) throws {
        switch try phase(on: connection, else: .parked(path)) {
        case .open where db.isInsideTransaction: database.longReads.look(db)
        case .open, .adrift: throw DatabaseError.adrift(path)
        case .parked, .expired, .closed: preconditionFailure("a connection is open")
        }
    }

    /// The phase of the snapshot, if its connection can be used.
    ///
    /// - parameter lost: the error to throw when the connection is not this snapshot's any more.
    private func phase(on connection: ReaderConnection, else lost: @autoclosure () -> DatabaseError) throws -> Phase {
        let phase = try state.withLock { state in
            guard state.phase != .closed, state.connection === connection else {
                throw lostConnection(state.phase, else: lost())
            }
            return state.phase
        }
        // Another thread may have closed it, and not have changed the phase yet.
        if connection.isFinalized { throw DatabaseError.snapshotClosed(path, callSite) }
        try database.files.check(at: MonotonicClock.approximateNow)
        return phase
    }

    /// Moves to the latest commit.
    func advance(_ db: Database, _ connection: ReaderConnection) throws -> [DatabaseChange] {
        _ = try phase(on: connection, else: .suspended(path))
        database.longReads.look(db)
        try leave(db, connection)
        database.stepAside(db)
        let moment = try Moment(db, on: connection)
        let changes = try state.withLock { state in
            // The connection was given up meanwhile, and is about to close.
            guard state.connection === connection else { throw DatabaseError.suspended(path) }
            defer {
                (state.phase, state.mark, state.since) = (.open, moment.knownMark, moment.since)
                state.wasParked = false
            }
            return moment.changes(
                movingThere: &state.cursor,
                from: state.wasParked ? .some(state.mark) : nil,
                db,
                owns: database.seat.owns
            )
        }
        try database.longReads.began(self, moment.read, at: site)
        return changes
    }

    /// Ends the read transaction.
    private func leave(_ db: Database, _ connection: ReaderConnection) throws {
        try connection.end(db)
        guard !db.isReading else {
            // A statement keeps the moment, so the transaction begins again at the same moment.
            try connection.begin(db)
            throw DatabaseError.cursorIsAlive(path)
        }
        try state.withLock { state in
            guard state.connection === connection else { throw DatabaseError.suspended(path) }
            state.phase = .adrift
        }
    }
}

/// The moment that a read transaction sees.
private struct Moment {
    let since: Nanoseconds
    /// The wal-index header before the transaction began, and after. The two are equal, unless another connection committed in between at
    /// each attempt. nil when the header cannot be read.
    let earliest: WalIndex.Header?
    let latest: WalIndex.Header?

    /// Begins a transaction.
    init(_ db: Database, on connection: ReaderConnection) throws {
        var before: WalIndex.Header?
        var after: WalIndex.Header?
        var began: Nanoseconds = 0
        for attempt in 0..<Self.attempts {
            if attempt > 0 { try connection.end(db) }
            began = MonotonicClock.now
            before = WalIndex(db)?.header
            try connection.begin(db)
            after = WalIndex(db)?.header
            if before == after, before != nil { break }
        }
        since = began
        earliest = before
        latest = after
    }

    /// Enough attempts to begin between two commits of processes that commit as fast as they can.
    private static let attempts = 20

    /// The read that the slot shows. If its place is not known, it holds all frames back.
    var read: OldestRead { OldestRead(since: since, mark: earliest?.mark ?? WalMark(frames: 0, salt: 0)) }

    /// The end of the WAL at this moment; nil when the commits that the moment sees cannot be distinguished from those made meanwhile.
    var knownMark: WalMark? { earliest == latest ? earliest?.mark : nil }

    // Rule O1: A snapshot reads the commit counter before its transaction begins and after. If both are equal, it is the moment's counter;
    // else the transaction is begun again, up to 20 times. If they never are, what was committed in between is reported now, and once more
    // when the snapshot advances. From moment to moment the ring is read by R3, no further than the moment's counter. A committed record
    // whose counter is not reached is from before a reset of the counter. A record that is still *reserved* is waited for up to 250 ms.

    /// Moves a cursor to this moment, and returns the changes. Commits that this moment may or may not see are reported now, and once
    /// more when the cursor leaves (rule O1).
    func changes(
        movingThere cursor: inout CommitCursor,
        from mark: WalMark??,
        _ db: Database,
        owns: (OwnerWord, ControlBlock) -> Bool
    ) -> [DatabaseChange] {
        guard let earliest, let latest else { return cursor.restart(at: nil) }
        func move(_ cursor: inout CommitCursor, to header: WalIndex.Header) -> [DatabaseChange] {
            cursor.move(
                to: header.commitCounter,
                presentCounter: { WalIndex(db)?.header?.commitCounter },
                owns: owns
            )
        }
        if let mark {
            switch earliest.commits(since: cursor.counter, at: mark) {
            case .none: cursor.recount(to: earliest.commitCounter)
            case .counted: break
            case .unknown: return cursor.restart(at: earliest.commitCounter)
            }
        }
        let certain = move(&cursor, to: earliest)
        if latest.commitCounter == earliest.commitCounter { return certain }
        var ahead = cursor
        return certain + move(&ahead, to: latest)
    }
}

extension Database {
    /// Whether there is a read transaction, a statement's own included
    /// ([sqlite3_txn_state](https://www.sqlite.org/c3ref/txn_state.html)).
    fileprivate var isReading: Bool { sqlite3_txn_state(sqliteConnection, "main") != SQLITE_TXN_NONE }
}

extension DatabaseError {
    fileprivate static func snapshotNeedsWAL(_ path: String) -> DatabaseError {
        DatabaseError(
            message: """
                \(path): not in WAL mode, where a snapshot would block all writers as long as it is open. Let a process that \
                may write open the database with SharedDatabase.open: it switches to WAL
                """
        )
    }

    fileprivate static func adrift(_ path: String) -> DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_ABORT,
            message: """
                \(path): the snapshot has no read transaction: it could not advance or close, or a closure has ended it. \
                Call advance() again, or make another
                """
        )
    }

    fileprivate static func expired(
        _ path: String,
        _ callSite: String,
        age: Nanoseconds,
        limit: Nanoseconds
    ) -> DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_ABORT,
            message: """
                \(path): the snapshot made at \(callSite) was ended: its moment was \((Double(age) / 1e9).seconds) old, and \
                maximumSnapshotAge is \(String(format: "%.15g", Double(limit) / 1e9)) s. \
                Call advance(): it goes to the latest commit, and returns the changes since
                """
        )
    }

    fileprivate static func snapshotClosed(_ path: String, _ callSite: String) -> DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_MISUSE,
            message: "\(path): the snapshot made at \(callSite) was closed: make another"
        )
    }

    fileprivate static func parked(_ path: String) -> DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_ABORT,
            message: """
                \(path): the snapshot has lost its moment, because the database was suspended. Call advance() after resume(): \
                it returns the changes since
                """
        )
    }

    fileprivate static func cursorIsAlive(_ path: String, whenClosing: Bool = false) -> DatabaseError {
        let what = whenClosing ? "be closed" : "leave its moment"
        let use = whenClosing ? "in use" : "being stepped"
        return DatabaseError(
            resultCode: .SQLITE_BUSY,
            message: """
                \(path): the snapshot cannot \(what) while a cursor or a statement of an earlier read is still \(use): \
                release it, and try again
                """
        )
    }
}
