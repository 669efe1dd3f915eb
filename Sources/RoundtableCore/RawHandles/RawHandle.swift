import GRDB
import RoundtableGate
import RoundtableKernel
import Synchronization

extension SharedDatabase {
    /// Lets a `sqlite3` connection that does not belong to GRDB (SQLite.swift, C, an older layer of your program) write to the shared
    /// database in fair turns, and notifies all observers of its commits. See <doc:OtherLanguagesAndLibraries>.
    ///
    /// ```swift
    /// let handle = try SharedDatabase.RawHandle(attachedTo: connection.handle, of: db)
    /// try handle.withTurn(tables: ["player"]) {
    ///     try connection.transaction(.immediate) { … }
    /// }
    /// ```
    ///
    /// The connection stays yours: Roundtable does not touch its hooks (commit, update, rollback, WAL, busy, progress, authorizer, trace)
    /// and keeps no statement on it. Around a turn, Roundtable runs `PRAGMA data_version` and `PRAGMA schema_version` on it, which trace and
    /// authorizer callbacks see. The connection must stay open until the handle is detached.
    ///
    /// Attaching sets `PRAGMA synchronous` of a connection that has SQLite's default, `FULL`, to what ``Options/durability`` says, because
    /// each commit would otherwise wait for the disk while all other writers wait for the turn. Set it again after attaching for another
    /// value. Any other value stays.
    ///
    /// A handle may be used from any thread. A turn is a write of the ``SharedDatabase``, which the handle retains: all turns and other writes
    /// of it run one after the other. ``DatabaseChange/isOwn`` is true, unless a commit is ``DatabaseChange/Detail-swift.enum/unrecorded``. If the connection was opened with `SQLITE_OPEN_NOMUTEX`, no other
    /// thread may use it while a turn begins or ends, and it has no async turns.
    public final class RawHandle: Sendable {
        /// What to do about SQLite's automatic checkpoints on the connection. They run within commits while all other writers wait, and can
        /// trigger [the WAL-reset bug](https://www.sqlite.org/wal.html#the_wal_reset_bug) where ``SQLiteVersion/hasWALResetBug``.
        public enum AutomaticCheckpoints: Sendable {
            /// Automatic checkpoints are turned off for as long as the connection is open, because Roundtable checkpoints. Your own WAL
            /// hook stays: a connection has either a WAL hook of its owner or automatic checkpoints.
            case turnedOff
            /// Automatic checkpoints stay as they are. This connection then checkpoints within commits, as any other program would, with
            /// the consequences that `docs/WALRESET.md` describes.
            case kept
        }

        private enum State { case idle, inTurn, detached }

        private let database: SharedDatabase
        private let raw: RawConnection
        private let state = Mutex(State.idle)

        /// Attaches a connection, which must not be inside a transaction. Its `PRAGMA synchronous` is set if it is SQLite's default (see above).
        ///
        /// When the connection closes, also after the handle was detached, SQLite neither checkpoints nor removes the WAL. Roundtable's
        /// participants do what is due.
        ///
        /// - Parameters:
        ///   - connection: a `sqlite3 *` to the file of `database`, in WAL mode, open for writing.
        ///   - database: a shared database that is open for reading and writing.
        ///   - automaticCheckpoints: what to do about SQLite's automatic checkpoints on the connection.
        /// - throws: ``RawHandleError``; `DatabaseError` when the database is closed or suspended.
        public init(
            attachedTo connection: OpaquePointer,
            of database: SharedDatabase,
            automaticCheckpoints: AutomaticCheckpoints = .turnedOff
        ) throws {
            try database.checkOpen()
            let raw = RawConnection(pointer: connection)
            try raw.check(for: database)
            raw.setSyncing(database.options.syncing)
            if automaticCheckpoints == .turnedOff, raw.automaticCheckpoint > 0 { raw.turnAutomaticCheckpointOff() }
            // A program that closes the connection may do so after the files were lost, and after it has detached the handle.
            raw.leaveFilesAlone()
            self.database = database
            self.raw = raw
            database.files.opened(raw.number, DatabaseFiles.Part.allCases)
        }

        deinit {
            // The connection must not be used here, because it may already be closed. A detached one is none of ours any more: another one may
            // have its number now.
            if database.isInOwnProcess, state.withLock({ $0 != .detached }) { database.files.closes(raw.number) }
        }

        /// Whether any thread is in a turn of this handle.
        package var isInTurn: Bool { state.withLock { $0 == .inTurn } }

        /// Acquires the turn, runs `body`, which writes with the connection, and ends the turn. It waits as a write of the database does.
        ///
        /// `body` begins and ends transactions, best one `BEGIN IMMEDIATE … COMMIT`, because other writers wait meanwhile. A transaction that has
        /// written and is left open is rolled back. It must not write to the shared database in any other way, which is a programming error, as a
        /// nested write of GRDB is.
        ///
        /// - Parameters:
        ///   - tables: the tables that `body` may write. The tables that their triggers and foreign keys write are added. nil:
        ///     `body` may write any table, and all observers are notified.
        ///   - priority: the priority of the request among waiting writers; nil: ``Options/priority``.
        ///   - whileSuspended: as for ``write(priority:whileSuspended:file:line:_:)``.
        ///   - file: the file of the call, for errors of other processes and for `status`.
        ///   - line: the line of the call.
        ///   - body: writes with the connection.
        /// - throws: what `body` throws; ``RawHandleError/transactionLeftOpen(path:)`` when `body` returns inside a transaction;
        ///   other ``RawHandleError``s before `body` runs; `SQLITE_BUSY`, with the name of the process in the way;
        ///   ``SharedDatabaseError/schemaTooNew(path:unknownMigrations:)``.
        @_disfavoredOverload
        public func withTurn<T>(
            tables: Set<String>? = nil,
            priority: TurnPriority? = nil,
            whileSuspended: WhileSuspended? = nil,
            file: StaticString = #fileID,
            line: UInt = #line,
            _ body: () throws -> T
        ) throws -> T {
            if Access.isWriting(database) { throw RawHandleError.nestedTurn(path: database.path) }
            try state.withLock { try check($0) }
            let write = database.blockingWrite(CallSite(file, line), whileSuspended, priority)
            var result: T?
            try database.onWriter(write, refuse: { throw $0 }) { db in
                try turn(db, writing: tables) { result = try body() }
            }
            return result!
        }

        /// Acquires the turn, runs `body`, and ends the turn, without blocking a thread of Swift's pool: `body` runs on a dispatch queue.
        ///
        /// - throws: what the blocking `withTurn` throws; `CancellationError`; ``RawHandleError/withoutMutex(path:)`` when several threads
        ///   must not use the connection.
        public func withTurn<T: Sendable>(
            tables: Set<String>? = nil,
            priority: TurnPriority? = nil,
            whileSuspended: WhileSuspended? = nil,
            file: StaticString = #fileID,
            line: UInt = #line,
            _ body: @escaping @Sendable () throws -> T
        ) async throws -> T {
            guard raw.hasMutex else { throw RawHandleError.withoutMutex(path: database.path) }
            try state.withLock { try check($0) }
            let write = database.waitingWrite(CallSite(file, line), whileSuspended, priority)
            return try await database.onWriter(write) { db in
                var result: T?
                try self.turn(db, writing: tables) { result = try body() }
                return result!
            }
        }

        /// A turn is refused before it waits, because all writers would wait for a transaction that is open.
        private func check(_ state: State) throws {
            if state == .detached { throw RawHandleError.detached(path: database.path) }
            if raw.isInExplicitTransaction, state != .inTurn {
                throw RawHandleError.transactionOpen(path: database.path)
            }
        }

        private func turn(_ db: Database, writing tables: Set<String>?, _ body: () throws -> Void) throws {
            try state.withLock { state in
                try check(state)
                state = .inTurn
            }
            defer { state.withLock { $0 = .idle } }
            try database.writer.lendTurn(db, to: raw, writing: tables, body)
        }

        /// Detaches the connection. Call it before the connection is closed. The connection is not changed: automatic checkpoints that were
        /// turned off stay off. A second call does nothing.
        ///
        /// - throws: ``RawHandleError/detachedInTurn(path:)`` when a thread is in a turn of the handle.
        public func detach() throws {
            try database.checkProcess()
            try state.withLock { state in
                if state == .inTurn { throw RawHandleError.detachedInTurn(path: database.path) }
                if state == .idle { database.files.closes(raw.number) }
                state = .detached
            }
        }
    }
}
