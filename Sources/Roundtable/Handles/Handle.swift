import Dispatch
import GRDB
import RoundtableKernel
import Synchronization

extension SharedDatabase {
    /// Lets a `sqlite3` connection that does not belong to GRDB (SQLite.swift, C, an older layer of your program) write to the shared database in
    /// fair turns, and tells all who observe of its commits. See <doc:RawHandles>.
    ///
    /// ```swift
    /// let handle = try SharedDatabase.Handle(attachedTo: connection.handle, of: db)
    /// try handle.withTurn(tables: ["player"]) {
    ///     try connection.transaction(.immediate) { … }
    /// }
    /// ```
    ///
    /// The connection stays yours: its hooks (commit, update, rollback, WAL, busy, progress, authorizer, trace) are not touched, no statement is kept on it, and
    /// its transactions are begun and ended by you alone. Around a turn, `PRAGMA data_version` and `PRAGMA schema_version` run on it, and the
    /// table of GRDB's migrations is read, which trace and authorizer callbacks see. It must stay open until the handle is detached.
    ///
    /// A handle may be used from any thread: turns of several threads come one after the other. To begin and to end one is to use the connection,
    /// though: where that was opened with `SQLITE_OPEN_NOMUTEX`, do so where no other thread uses it; async turns it has none. A handle keeps the
    /// database in memory, and counts as a participant of its own: in `status`, in the fairness of turns, and in ``Change/author``, by the database's name.
    public final class Handle: Sendable {
        /// What to do about SQLite's automatic checkpoints on the connection: they run within commits while everybody waits, and can
        /// meet [the WAL-reset bug](https://www.sqlite.org/wal.html#the_wal_reset_bug), where ``SQLiteVersion/hasWALResetBug``.
        public enum AutomaticCheckpoints: Sendable {
            /// They are turned off, for as long as the connection is open: Roundtable checkpoints. A WAL hook of your own stays: SQLite has either
            /// that or automatic checkpoints.
            case turnedOff
            /// They stay as they are: then this connection checkpoints as any other program would, within commits, with what comes of it
            /// (`docs/WALRESET.md`).
            case kept
        }

        let database: SharedDatabase
        let raw: RawConnection
        let access: HandleAccess
        private let queue = DispatchQueue(label: "roundtable.handle")

        /// Attaches a connection. Not within a transaction of it.
        ///
        /// - Parameters:
        ///   - connection: a `sqlite3 *` to the file of `database`, in WAL mode, open for writing.
        ///   - database: open for reading and writing.
        ///   - automaticCheckpoints: of the connection.
        /// - throws: ``HandleError``; `DatabaseError` when the database is closed or suspended.
        public init(
            attachedTo connection: OpaquePointer,
            of database: SharedDatabase,
            automaticCheckpoints: AutomaticCheckpoints = .turnedOff
        ) throws {
            try database.checkOpen()
            let raw = RawConnection(pointer: connection)
            try raw.check(for: database)
            if automaticCheckpoints == .turnedOff, raw.automaticCheckpoint > 0 { raw.turnAutomaticCheckpointOff() }
            self.database = database
            self.raw = raw
            access = HandleAccess(raw, of: database)
            database.handles.add(self)
        }

        deinit {
            database.handles.remove(ObjectIdentifier(self))
            // The connection may be closed by now.
            access.abandon()
        }

        /// Whether a turn is under way, of any thread.
        public var isInTurn: Bool { access.isInTurn }

        // MARK: Turns

        /// Waits for the turn, runs `body`, which writes with the connection, and ends the turn.
        ///
        /// `body` begins and ends transactions, best one `BEGIN IMMEDIATE … COMMIT`: others wait meanwhile. It must not write to the shared database by
        /// other ways: those would wait for this turn.
        ///
        /// - Parameters:
        ///   - tables: those that `body` may write. What their triggers and foreign keys write is added. nil: any may be, and all
        ///     observers are told.
        ///   - timeout: how long to wait for the turn; nil: as ``Options/busyMode`` says.
        ///   - priority: who goes first; nil: ``Options/priority``.
        ///   - whileSuspended: as for ``write(whileSuspended:file:line:_:)``.
        /// - throws: what `body` throws; ``HandleError/transactionLeftOpen(path:after:)``, with the turn kept, when it leaves a transaction open; other
        ///   ``HandleError``s before it runs; `SQLITE_BUSY`, with the name of who is in the way; ``SharedDatabaseError/schemaTooNew(path:unknownMigrations:)``.
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
            let request = HandleAccess.Request(write, tables: tables, timeout: timeout, priority: priority)
            return try finish(try access.begin(request), body)
        }

        /// The same, without blocking a thread of Swift's pool: `body` runs on a thread of its own.
        ///
        /// - throws: also `CancellationError`; ``HandleError/withoutMutex(path:)``, when the connection is not for several threads.
        public func withTurn<T: Sendable>(
            tables: Set<String>? = nil,
            timeout: Duration? = nil,
            priority: TurnPriority? = nil,
            whileSuspended: WhileSuspended? = nil,
            file: StaticString = #fileID,
            line: UInt = #line,
            _ body: @escaping @Sendable () throws -> T
        ) async throws -> T {
            guard raw.hasMutex else { throw HandleError.withoutMutex(path: database.path) }
            let write = database.waitingWrite(CallSite(file, line), whileSuspended)
            while true {
                // The gate is waited for here, where no thread is blocked.
                let attempt = Write(site: write.site, waits: false)
                let cancellation = WaitCancellation()
                let request = HandleAccess.Request(
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
                            do { turn = try self.access.begin(request) } catch {
                                throw NotBegun(reason: error, isForGate: false)
                            }
                            return try self.finish(turn, body)
                        }
                    } onCancel: {
                        cancellation.cancel()
                    }
                } catch let error as NotBegun {
                    guard write.waits, (error.reason as? DatabaseError)?.isSuspension == true else {
                        throw error.reason
                    }
                    try await database.gate.waitUntilOpen()
                }
            }
        }

        /// Waits for the turn. For code that cannot be put into a closure; every turn must be ended, by the same thread.
        ///
        /// Its parameters are those of `withTurn`.
        ///
        /// - throws: ``HandleError``; `SQLITE_BUSY`, with the name of who is in the way; ``SharedDatabaseError/schemaTooNew(path:unknownMigrations:)``. There is
        ///   no turn then.
        public func beginTurn(
            tables: Set<String>? = nil,
            timeout: Duration? = nil,
            priority: TurnPriority? = nil,
            whileSuspended: WhileSuspended? = nil,
            file: StaticString = #fileID,
            line: UInt = #line
        ) throws {
            let write = database.blockingWrite(CallSite(file, line), whileSuspended)
            _ = try access.begin(HandleAccess.Request(write, tables: tables, timeout: timeout, priority: priority))
        }

        /// Ends the turn, and tells all who observe of what was committed in it. The connection's error message (`sqlite3_errmsg`) may
        /// be another one afterwards.
        ///
        /// - parameter tables: those that were written, beside those that were named when the turn began. If none is named
        ///   then or now, any may have been.
        /// - throws: ``HandleError/transactionLeftOpen(path:after:)``, with the turn kept; ``HandleError/noTurn(path:)``;
        ///   ``HandleError/wrongThread(path:)``.
        public func endTurn(tables: Set<String>? = nil) throws { try access.end(tables: tables) }

        private func finish<T>(_ turn: UInt64, _ body: () throws -> T) throws -> T {
            let result: Result<T, any Error>
            do { result = .success(try body()) } catch { result = .failure(error) }
            try access.end(turn, after: result)
            return try result.get()
        }

        /// - throws: what `body` throws; `NotBegun` when that is cancelled before it runs: it may be behind another turn of this handle.
        private func onQueue<T: Sendable>(
            unless cancellation: WaitCancellation,
            _ body: @escaping @Sendable () throws -> T
        ) async throws -> T {
            try await withCheckedThrowingContinuation { continuation in
                let pending = Pending(continuation)
                queue.async { pending.claim()?.resume(with: Result { try body() }) }
                let cancel: @Sendable () -> Void = {
                    pending.claim()?.resume(throwing: NotBegun(reason: CancellationError(), isForGate: false))
                }
                cancellation.arm(pending, wake: cancel)
                if cancellation.isCancelled { cancel() }
            }
        }

        /// What is resumed by whoever comes first.
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

        /// Leaves the other participants. Call it before the connection is closed. Nothing of the connection is changed; automatic
        /// checkpoints that were turned off stay so. A second time, it does nothing.
        ///
        /// ``SharedDatabase/close()`` detaches all handles.
        ///
        /// - throws: ``HandleError/detachedInTurn(path:)``.
        public func detach() throws {
            try access.detach()
            database.handles.remove(ObjectIdentifier(self))
        }
    }
}

// MARK: - For the database

extension SharedDatabase.Handle {
    func isInTurn(onThread thread: UInt) -> Bool { access.isInTurn(onThread: thread) }

    func interrupt() { access.interrupt() }

    func show(isSuspended: Bool) { access.seat.show(isSuspended: isSuspended) }

    /// Why the database cannot be closed.
    var isWriting: DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_BUSY,
            message:
                "\(database.path): not closed: a raw handle has the turn\(access.site.map { ", since \($0.file):\($0.line)" } ?? ""). End it first"
        )
    }
}
