import Dispatch
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
    /// and keeps no statement on it. Only you begin and end its transactions. Around a turn, Roundtable runs `PRAGMA data_version` and
    /// `PRAGMA schema_version` on it, and reads the table of GRDB's migrations. Trace and authorizer callbacks see these statements. The
    /// connection must stay open until the handle is detached.
    ///
    /// Attaching sets `PRAGMA synchronous` of a connection that has SQLite's default, `FULL`, to what ``Options/durability`` says, because
    /// each commit would otherwise wait for the disk while all other writers wait for the turn. Set it again after attaching for another
    /// value. Any other value stays.
    ///
    /// A handle may be used from any thread: turns of several threads run one after the other. Beginning and ending a turn uses the
    /// connection. If the connection was opened with `SQLITE_OPEN_NOMUTEX`, begin and end turns only while no other thread uses it; such a
    /// connection has no async turns.
    ///
    /// A handle retains the ``SharedDatabase``. It counts as a participant of its own in `status`, in the fairness of turns, and in
    /// ``DatabaseChange/author``, under the name of the database.
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

        let database: SharedDatabase
        let raw: RawConnection
        let access: RawHandleAccess
        private let queue = DispatchQueue(label: "roundtable.handle")

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
            access = RawHandleAccess(raw, of: database)
            database.handles.add(self)
        }

        deinit {
            database.handles.remove(ObjectIdentifier(self))
            // The connection must not be used here, because it may already be closed.
            access.abandon()
        }

        /// Whether any thread is in a turn of this handle.
        package var isInTurn: Bool { access.isInTurn }

        // MARK: Turns

        /// Acquires the turn, runs `body`, which writes with the connection, and ends the turn.
        ///
        /// `body` begins and ends transactions, best one `BEGIN IMMEDIATE … COMMIT`, because other writers wait meanwhile. It must not
        /// write to the shared database in any other way: such a write would wait for this turn.
        ///
        /// - Parameters:
        ///   - tables: the tables that `body` may write. The tables that their triggers and foreign keys write are added. nil:
        ///     `body` may write any table, and all observers are notified.
        ///   - timeout: how long to wait for the turn; nil: as long as ``Options/busyMode`` says.
        ///   - priority: the priority of the request among waiting writers; nil: ``Options/priority``.
        ///   - whileSuspended: as for ``write(priority:whileSuspended:file:line:_:)``.
        ///   - file: the file of the call, for errors of other processes and for `status`.
        ///   - line: the line of the call.
        ///   - body: writes with the connection.
        /// - throws: what `body` throws; ``RawHandleError/transactionLeftOpen(path:after:)`` when `body` leaves a transaction open: the handle
        ///   then keeps the turn; other ``RawHandleError``s before `body` runs; `SQLITE_BUSY`, with the name of the process in the way;
        ///   ``SharedDatabaseError/schemaTooNew(path:unknownMigrations:)``.
        @_disfavoredOverload
        public func withTurn<T>(
            tables: Set<String>? = nil,
            timeout: Duration? = nil,
            priority: TurnPriority? = nil,
            whileSuspended: WhileSuspended? = nil,
            file: StaticString = #fileID,
            line: UInt = #line,
            _ body: () throws -> T
        ) throws -> T {
            let write = database.blockingWrite(CallSite(file, line), whileSuspended)
            let request = RawHandleAccess.Request(write, tables: tables, timeout: timeout, priority: priority)
            return try finish(try access.begin(request), body)
        }

        /// Acquires the turn, runs `body`, and ends the turn, without blocking a thread of Swift's pool: `body` runs on a dispatch queue.
        ///
        /// - throws: what the blocking `withTurn` throws; `CancellationError`; ``RawHandleError/withoutMutex(path:)`` when several threads
        ///   must not use the connection.
        public func withTurn<T: Sendable>(
            tables: Set<String>? = nil,
            timeout: Duration? = nil,
            priority: TurnPriority? = nil,
            whileSuspended: WhileSuspended? = nil,
            file: StaticString = #fileID,
            line: UInt = #line,
            _ body: @escaping @Sendable () throws -> T
        ) async throws -> T {
            guard raw.hasMutex else { throw RawHandleError.withoutMutex(path: database.path) }
            let write = database.waitingWrite(CallSite(file, line), whileSuspended)
            while true {
                // The task waits for the suspension gate below, where no thread is blocked.
                let attempt = Write(site: write.site, waits: false, priority: nil)
                let cancellation = WaitCancellation()
                let request = RawHandleAccess.Request(
                    attempt,
                    tables: tables,
                    timeout: timeout,
                    priority: priority,
                    cancellation: cancellation
                )
                do {
                    return try await withTaskCancellationHandler {
                        try await onQueue(unless: cancellation) {
                            let turn: UInt64
                            do { turn = try self.access.begin(request) } catch { throw Refusal.failed(error) }
                            return try self.finish(turn, body)
                        }
                    } onCancel: {
                        cancellation.cancel()
                    }
                } catch Refusal.failed(let error) {
                    guard write.waits, (error as? DatabaseError)?.isSuspension == true else { throw error }
                    try await database.gate.waitUntilOpen()
                }
            }
        }

        /// Acquires the turn. Use it for code that cannot be put into a closure. The thread that began a turn must end it.
        ///
        /// Its parameters are those of `withTurn`.
        ///
        /// - throws: ``RawHandleError``; `SQLITE_BUSY`, with the name of the process in the way;
        ///   ``SharedDatabaseError/schemaTooNew(path:unknownMigrations:)``. The handle does not hold the turn then.
        public func beginTurn(
            tables: Set<String>? = nil,
            timeout: Duration? = nil,
            priority: TurnPriority? = nil,
            whileSuspended: WhileSuspended? = nil,
            file: StaticString = #fileID,
            line: UInt = #line
        ) throws {
            let write = database.blockingWrite(CallSite(file, line), whileSuspended)
            _ = try access.begin(RawHandleAccess.Request(write, tables: tables, timeout: timeout, priority: priority))
        }

        /// Ends the turn, and notifies all observers of the commits made in it. The connection's error message (`sqlite3_errmsg`) may
        /// change.
        ///
        /// - parameter tables: the tables that were written, in addition to those that were named when the turn began. If no table is named
        ///   then or now, any table may have been written.
        /// - throws: ``RawHandleError/transactionLeftOpen(path:after:)`` when the connection is inside a transaction: the handle then keeps
        ///   the turn; ``RawHandleError/noTurn(path:)``; ``RawHandleError/wrongThread(path:)``.
        public func endTurn(tables: Set<String>? = nil) throws { try access.end(tables: tables) }

        private func finish<T>(_ turn: UInt64, _ body: () throws -> T) throws -> T {
            let result: Result<T, any Error>
            do { result = .success(try body()) } catch { result = .failure(error) }
            try access.end(turn, after: result)
            return try result.get()
        }

        /// Runs `body` on the handle's queue.
        ///
        /// - throws: what `body` throws; `Refusal` if the task is cancelled before `body` runs, which may wait behind another turn of this
        ///   handle.
        private func onQueue<T: Sendable>(
            unless cancellation: WaitCancellation,
            _ body: @escaping @Sendable () throws -> T
        ) async throws -> T {
            try await withCheckedThrowingContinuation { continuation in
                let pending = Pending(continuation)
                queue.async { pending.claim()?.resume(with: Result { try body() }) }
                let cancel: @Sendable () -> Void = {
                    pending.claim()?.resume(throwing: Refusal.failed(CancellationError()))
                }
                cancellation.arm(pending, wake: cancel)
                if cancellation.isCancelled { cancel() }
            }
        }

        /// A continuation that is resumed once: by the queue or by the cancellation, whichever claims it first.
        private final class Pending<T: Sendable>: Sendable {
            private let continuation: Mutex<CheckedContinuation<T, any Error>?>

            init(_ continuation: CheckedContinuation<T, any Error>) { self.continuation = Mutex(continuation) }

            func claim() -> CheckedContinuation<T, any Error>? {
                continuation.withLock { continuation in
                    defer { continuation = nil }
                    return continuation
                }
            }
        }

        // MARK: The end

        /// Detaches the connection. The handle stops being a participant. Call it before the connection is closed. The connection is not
        /// changed: automatic checkpoints that were turned off stay off. A second call does nothing.
        ///
        /// ``SharedDatabase/close()`` detaches all handles.
        ///
        /// - throws: ``RawHandleError/detachedInTurn(path:)`` when a thread holds the handle's turn, or is still acquiring it.
        public func detach() throws {
            try access.detach()
            database.handles.remove(ObjectIdentifier(self))
        }
    }
}

// MARK: - For the database

extension SharedDatabase.RawHandle {
    func isInTurn(onThread thread: UInt) -> Bool { access.isInTurn(onThread: thread) }

    func interrupt() { access.interrupt() }

    func show(isSuspended: Bool) { access.seat.show(isSuspended: isSuspended) }

    /// The error of a close that this handle prevents because it holds the turn.
    var isWriting: DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_BUSY,
            message: """
                \(database.path): not closed, because a raw handle holds the turn\(access.site.map { ", since \($0.file):\($0.line)" } ?? ""). \
                End the turn, and close again
                """
        )
    }
}
