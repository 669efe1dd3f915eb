import Foundation
import GRDB
import RoundtableGate
import RoundtableKernel
import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

// Rule U1: A handle is a participant (rules P): it has a slot, takes the turn by the rules T, and owns its records in the ring. To the
// database that it was made from, its commits are another's (N5), so observers of its own process are notified of them like of those of
// other processes.

// Rule U3: Turns of one handle follow each other, whichever thread asks, before the gate: what ends a wait for the turn (T11) ends that
// wait too. Its turn is inside the gate (F2), from before the wait to the end of the turn. At a deadline, the statement that runs is
// interrupted (`sqlite3_interrupt`); nothing is rolled back in its owner's name. What the owner reads outside of turns is its own affair,
// and so are the locks that its idle connection holds under the policy *everything* (W8).

/// Runs the turns of a raw handle one after the other. Each turn passes the suspension gate, and the handle has a seat of its own
/// (rules U1, U3–U8).
final class RawHandleAccess: @unchecked Sendable {
    // @unchecked: `seat`, `commits`, `schema` and `busyHandler` are confined to the thread that has passed `turnstile`. The rest is
    // constant, or guarded.

    /// A request for a turn.
    struct Request: Sendable {
        let write: SharedDatabase.Write
        let tables: Set<String>?
        let deadline: Nanoseconds?
        let priority: SharedDatabase.TurnPriority?
        let cancellation: WaitCancellation

        init(
            _ write: SharedDatabase.Write,
            tables: Set<String>?,
            timeout: Duration?,
            priority: SharedDatabase.TurnPriority?,
            cancellation: WaitCancellation = WaitCancellation()
        ) {
            self.write = write
            self.tables = tables
            self.deadline = timeout.map { MonotonicClock.now.addingSaturating($0.nanoseconds) }
            self.priority = priority
            self.cancellation = cancellation
        }
    }

    private struct Turn {
        let visit: UInt64
        let site: CallSite?
        let tables: Set<String>?
        /// The thread that may end the turn; nil: any thread.
        var thread: UInt?
        var isInterrupted = false
        /// Whether the turn continues because a transaction was open when it was to end.
        var isKept = false
    }

    private struct State {
        var turn: Turn?
        /// The cancellation of the request that has passed the turnstile, until it acquires the turn.
        var waiting: WaitCancellation?
        var hasLeft = false
        /// The number of calls of `detach` in progress. It is a count, because one of two calls may fail.
        var detaching = 0

        var isDetached: Bool { hasLeft || detaching > 0 }
    }

    private let path: String
    private let raw: RawConnection
    private unowned let database: SharedDatabase
    private let gate: SuspensionGate
    let seat: Seat
    private let commits: RawHandleCommits
    private let schema: RawHandleSchema
    /// Used for the wait for the turn only.
    private let busyHandler: BusyHandler
    /// Taken before the wait for the turn and left when the turn ends. It belongs to the turn, not to a thread. No thread waits for the
    /// gate to open while it holds the turnstile.
    private let turnstile = Turnstile()
    private let state = Mutex(State())
    /// Held by the thread that ends the turn. That thread may wait for the mutex of the connection as long as a statement runs on another
    /// thread.
    private let ending = NSLock()

    init(_ raw: RawConnection, of database: SharedDatabase) {
        self.raw = raw
        self.database = database
        path = database.path
        gate = database.gate
        seat = Seat(
            databasePath: database.path,
            author: database.author,
            role: .readWrite,
            settings: database.seat.settings,
            access: (try? System.status(ofFileAt: database.path)).flatMap { $0 }.map(FileAccess.init),
            stop: database.gate.waits
        )
        let tables = RawHandleTables(
            database.options.connectionOpening(path),
            configuration: database.options.readerConfiguration(path: path, seat: seat)
        )
        busyHandler = BusyHandler(path: path, options: database.options, gate: nil)
        busyHandler.seat = seat
        commits = RawHandleCommits(raw, seat: seat, tables: tables)
        schema = RawHandleSchema(raw, database.writer.watch)
        database.files.opened(raw.number, DatabaseFiles.Part.allCases)
    }

    // MARK: Beginning

    /// - returns: the identifier of the turn, for `end`.
    func begin(_ request: Request) throws -> UInt64 {
        let thread = Self.currentThread
        while true {
            try database.checkOpen()
            try database.files.check()
            if Access.isWriting(database) || database.handles.isInTurn(onThread: thread) {
                throw RawHandleError.nestedTurn(path: path)
            }
            let requested = MonotonicClock.now
            let deadline = request.deadline ?? requested.addingSaturating(database.options.busyTimeout.nanoseconds)
            try passTurnstile(request, since: requested, until: deadline)
            do {
                if let visit = try passGate(request, until: deadline) {
                    commits.begin(tables: request.tables)
                    let turn = Turn(visit: visit, site: request.write.site, tables: request.tables, thread: thread)
                    state.withLock { state in
                        state.waiting = nil
                        state.turn = turn
                    }
                    return visit
                }
            } catch {
                leaveTurnstile()
                throw error
            }
            leaveTurnstile()
            guard request.write.waits else { throw DatabaseError.suspended(path) }
            gate.waitUntilOpen()
        }
    }

    private func passTurnstile(_ request: Request, since requested: Nanoseconds, until deadline: Nanoseconds) throws {
        request.cancellation.arm(turnstile) { [turnstile] in turnstile.wakeAll() }
        defer { request.cancellation.disarm(turnstile) }
        let limit = request.deadline == nil ? turnstileLimit(since: requested) : nil
        let hasPassed = try turnstile.pass(until: deadline, limit: limit) { try checkWanted(request) }
        guard hasPassed else {
            let site = site.map { ", since \($0.file):\($0.line)" } ?? ""
            let waited = (Double(MonotonicClock.now &- requested) / 1e9).seconds
            throw DatabaseError(
                resultCode: .SQLITE_BUSY,
                message: """
                    \(path): no turn within \(waited): another thread of this process holds the turn of this handle, or waits for it\(site). \
                    Try again, or give each thread a connection and a handle of its own
                    """
            )
        }
        state.withLock { $0.waiting = request.cancellation }
    }

    /// Checks whether the request must stop waiting, for the turnstile or for the turn.
    private func checkWanted(_ request: Request) throws {
        let turn = try state.withLock { state in
            if state.isDetached { throw RawHandleError.detached(path: path) }
            return state.turn
        }
        if request.cancellation.isCancelled { throw CancellationError() }
        if let turn, turn.isKept {
            throw RawHandleError.turnKept(path: path, since: turn.site.map { "\($0.file):\($0.line)" })
        }
    }

    /// The limit that asks the callback of the busy mode; nil if the busy mode has no callback. Each waiting thread gets its own.
    private func turnstileLimit(since requested: Nanoseconds) -> (any WaitLimit)? {
        guard case .callback = database.options.busyMode else { return nil }
        let handler = BusyHandler(path: path, options: database.options, gate: nil)
        handler.seat = seat
        _ = handler.begin(requested: requested, deadline: nil)
        return handler.turnLimit
    }

    private func leaveTurnstile() {
        state.withLock { $0.waiting = nil }
        turnstile.leave()
    }

    /// Enters the gate and acquires the turn.
    ///
    /// - returns: the visit of the gate; nil when the gate is closed.
    private func passGate(_ request: Request, until deadline: Nanoseconds) throws -> UInt64? {
        repeat {
            try checkWanted(request)
            try gate.checkNotShuttingDown()
            if raw.isInTransaction { throw RawHandleError.transactionOpen(path: path) }
            if let visit = gate.enter(.turn, at: request.write.site, isRunning: false) {
                do {
                    if gate.start(visit) != nil {
                        // This opens a connection, which may ask for a key. It runs before the turn is acquired, so that no other process
                        // waits for it.
                        commits.lookUp(request.tables)
                        if try takeTurn(request, since: MonotonicClock.now, until: deadline) {
                            try admitTurn()
                            return visit
                        }
                    }
                } catch {
                    gate.leave(visit)
                    throw error
                }
                gate.leave(visit)
            }
            // The request was cancelled, or the gate closed before the turn was acquired.
        } while !gate.isClosed
        return nil
    }

    private func admitTurn() throws {
        do {
            try Fence.refuse(databasePath: path, ifSo: seat.participant?.block.mayBeFenced)
            try schema.admitTurn()
        } catch {
            seat.releaseTurn(continuing: !gate.isClosed)
            throw error
        }
    }

    /// - returns: false when the wait was cancelled.
    private func takeTurn(_ request: Request, since started: Nanoseconds, until deadline: Nanoseconds) throws -> Bool {
        let deadline = busyHandler.begin(requested: started, deadline: deadline)
        let outcome = seat.takeTurn(
            at: started,
            until: deadline,
            callSite: request.write.site,
            cancellation: request.cancellation,
            limit: request.deadline == nil ? busyHandler.turnLimit : nil,
            isWriteLockFree: { raw.isWriteLockFree },
            priority: { request.priority?.rawValue }
        )
        switch outcome {
        case .acquired, .uncoordinated: return true
        case .cancelled: return false
        case .timedOut:
            // Rule T11.
            if raw.isWriteLockFree { return true }
            let holder = LockHolder.find(databasePath: path, seat: seat)
            throw DatabaseError(
                resultCode: .SQLITE_BUSY,
                message: "database is locked: \(holder.description(waited: MonotonicClock.now &- started))"
            )
        }
    }

    // MARK: Ending

    /// Ends the turn of a closure that has returned. If the turn is kept, any thread may end it, because the closure's thread may be gone.
    func end<T>(_ visit: UInt64, after result: Result<T, any Error>) throws {
        // The closure may have ended the turn itself, and another thread may have begun a turn since.
        guard state.withLock({ $0.turn?.visit == visit }) else { return }
        do {
            try end(tables: nil)
        } catch RawHandleError.transactionLeftOpen {
            state.withLock { $0.turn?.thread = nil }
            var error: (any Error)?
            if case .failure(let failure) = result { error = failure }
            throw RawHandleError.transactionLeftOpen(path: path, after: error.map { "\($0)" })
        }
    }

    func end(tables: Set<String>?) throws {
        try database.checkProcess()
        let turn: Turn
        do { turn = try takeTurnToEnd() } catch RawHandleError.transactionLeftOpen(let path, let error) {
            // The waiting threads wake and fail, because the turn is kept.
            turnstile.wakeAll()
            throw RawHandleError.transactionLeftOpen(path: path, after: error)
        }
        commits.end(tables: turn.tables.map { $0.union(tables ?? []) } ?? tables)
        let frames = raw.isIdle ? raw.withWalIndex(\.frames) ?? nil : nil
        leave(turn, frames)
        // What was committed may have gone into a file that is lost.
        try database.files.check()
    }

    private func takeTurnToEnd() throws -> Turn {
        // If two threads end the turn at the same time, only one of them succeeds.
        try ending.withLock {
            let turn = try state.withLock { state in
                guard let turn = state.turn else { throw RawHandleError.noTurn(path: path) }
                guard turn.thread == nil || turn.thread == Self.currentThread else {
                    throw RawHandleError.wrongThread(path: path)
                }
                return turn
            }

            // Rule U7: A turn ends only outside of a transaction. An owner that ends it inside of one gets an error, and keeps the turn (as
            // W3); the transaction is not rolled back. Until that is ended, threads that request a turn of the handle fail immediately.

            // Rule U7. `state` is not locked here, because `interrupt` needs it while the statement runs.
            let isKept = raw.isInTransaction
            return try state.withLock { state in
                if isKept {
                    state.turn?.isKept = true
                    throw RawHandleError.transactionLeftOpen(path: path, after: nil)
                }
                defer { state.turn = nil }
                return state.turn ?? turn
            }
        }
    }

    private func leave(_ turn: Turn, _ frames: WalIndex.Frames?) {
        // No checkpoint is begun before a freeze (rule F4).
        let checkpointer = gate.isClosed ? nil : database.writer.checkpointer
        // Rule U8.
        if let frames { checkpointer?.helpHandle(frames) }
        seat.releaseTurn(continuing: !gate.isClosed)
        gate.leave(turn.visit, turn.isInterrupted ? .partly : nil)
        if let frames, checkpointer?.wantsCheckpoint(frames) == true { database.checkpointSoon() }
        turnstile.leave()
    }

    /// Releases the turn of a handle that is deallocated. The connection must not be used, so the commits of the turn are not announced:
    /// other participants detect them by themselves.
    func abandon() {
        let (turn, hasLeft) = state.withLock { state in
            defer { state.turn = nil }
            return (state.turn, state.hasLeft)
        }
        guard database.isInOwnProcess else { return }
        // A detached connection is none of ours any more. Another one may have its number now.
        if !hasLeft {
            database.files.closes(raw.number)
            seat.leave()
        }
        if let turn { gate.leave(turn.visit) }
        if turn != nil { turnstile.leave() }
    }

    func detach() throws {
        try database.checkProcess()
        let waiting = try state.withLock { state in
            if state.turn != nil { throw RawHandleError.detachedInTurn(path: path) }
            state.detaching += 1
            return state.waiting
        }
        var hasLeft = false
        defer {
            state.withLock { state in
                state.detaching -= 1
                if hasLeft { state.hasLeft = true }
            }
        }
        // Threads that wait for the turn or for the turnstile wake and find the handle detached.
        waiting?.cancel()
        turnstile.wakeAll()
        let timeout = database.options.backgroundBusyTimeout.nanoseconds
        guard try turnstile.pass(until: MonotonicClock.now.addingSaturating(timeout), limit: nil, check: {}) else {
            throw RawHandleError.detachedInTurn(path: path)
        }
        database.files.closes(raw.number)
        seat.leave()
        hasLeft = true
        turnstile.leave()
    }

    // MARK: From any thread

    var isInTurn: Bool { state.withLock { $0.turn != nil } }

    var site: CallSite? { state.withLock { $0.turn?.site } }

    func isInTurn(onThread thread: UInt) -> Bool { state.withLock { $0.turn?.thread == thread } }

    /// Interrupts the running statement, if there is a turn. The turn cannot end while `state` is locked, so the connection is open.
    func interrupt() {
        state.withLock { state in
            guard state.turn != nil else { return }
            state.turn?.isInterrupted = true
            raw.interrupt()
        }
    }

    private static var currentThread: UInt {
        #if canImport(Darwin)
            UInt(bitPattern: pthread_self())
        #else
            UInt(pthread_self())
        #endif
    }
}
