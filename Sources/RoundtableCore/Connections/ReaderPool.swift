import Dispatch
import GRDB
import RoundtableKernel
import Synchronization

/// Up to N reader connections, which are opened on demand and lent to one access at a time. A barrier is an access that has all
/// connections to itself. `ReaderAdmission` decides which access is next.
///
/// A parked pool closes its connections.
final class ReaderPool: Parkable {
    private typealias Answer = ReaderAdmission.Answer

    /// A thread that waits for an answer.
    private final class Waiting: Sendable {
        private let answer = Mutex(Answer.closed)
        private let hasEnded = DispatchSemaphore(value: 0)

        @Sendable func end(_ answer: Answer) {
            self.answer.withLock { $0 = answer }
            hasEnded.signal()
        }

        func wait() -> Answer {
            hasEnded.wait()
            return answer.withLock { $0 }
        }
    }

    private struct State {
        var idle: [ReaderConnection] = []
        var admission: ReaderAdmission
        /// The running reads. The participant's slot shows the oldest.
        var running: RunningReads
    }

    let path: String
    private let open: @Sendable () throws -> ReaderConnection
    /// Called when a read begins, on its thread, without a lock.
    private let willRead: @Sendable () throws -> Void
    private let state: BargingMutex<State>
    private let closings: ConnectionClosings
    /// All connections except those that close, so that no connection is interrupted while it closes.
    private let connections = Mutex<[ReaderConnection]>([])
    /// The number of open connections, for tests.
    var connectionCount: Int { connections.withLock { $0.count } }
    private let nextID = Atomic<UInt64>(0)
    private let lender = LenderExecutor()

    init(
        path: String,
        maximumCount: Int,
        seat: Seat,
        closings: ConnectionClosings,
        willRead: @escaping @Sendable () throws -> Void = {},
        open: @escaping @Sendable () throws -> ReaderConnection
    ) {
        self.path = path
        self.closings = closings
        self.willRead = willRead
        self.open = open
        let count = max(1, maximumCount)
        let admission = ReaderAdmission(maximumCount: count)
        state = BargingMutex(State(admission: admission, running: RunningReads(of: seat, capacity: count)))
    }

    /// The number of open connections that are not lent, of reads that run, and of reads and barriers that wait.
    var counts: (idle: Int, used: Int, waiting: Int) {
        state.withLock { ($0.idle.count, $0.admission.readCount, $0.admission.waitingCount) }
    }

    // MARK: Reading

    /// - Parameters:
    ///   - site: the line of code that other processes see for this read.
    ///   - insideWrite: whether the calling thread holds the writer connection. A barrier needs the writer connection too, so its
    ///     body does not run now, and waiting for it would be a deadlock.
    func withReader<T>(
        at site: CallSite?,
        insideWrite: Bool,
        _ body: (ReaderConnection) throws -> T
    ) throws -> T {
        try willRead()
        let reader = try takeAtOnce(at: site) ?? take(insideWrite ? enterBesideBarriers() : wait(.read), at: site)
        defer { give(reader) }
        do { return try body(reader) } catch { throw named(error, reader.wasInterrupted) }
    }

    /// - parameter body: calls its second argument when it no longer needs the connection. This matters if it continues on
    ///   another thread, for which it may have to wait.
    func withReader<T: Sendable>(
        at site: CallSite?,
        _ body: (ReaderConnection, _ giveBack: @escaping @Sendable () -> Void) async throws -> T
    ) async throws -> T {
        try willRead()
        // Here the task has a thread already, and it leaves that thread only for the queue of the connection.
        if let idle = takeAtOnce(at: site) { return try await lending(idle, body) }
        return try await withTaskExecutorPreference(lender) {
            try await lending(take(await wait(.read), at: site), body)
        }
    }

    private func lending<T: Sendable>(
        _ reader: ReaderConnection,
        _ body: (ReaderConnection, _ giveBack: @escaping @Sendable () -> Void) async throws -> T
    ) async throws -> T {
        let loan = Loan(of: reader) { self.give(reader) }
        defer { loan.end() }
        do {
            return try await body(reader, loan.end)
        } catch {
            loan.end()
            throw named(error, loan.wasInterrupted)
        }
    }

    /// The loan of a connection, which ends once.
    private final class Loan: Sendable {
        private let hasEnded = Atomic(false)
        private let interrupted = Atomic(false)
        private let reader: ReaderConnection
        private let body: @Sendable () -> Void

        init(of reader: ReaderConnection, _ body: @escaping @Sendable () -> Void) {
            self.reader = reader
            self.body = body
        }

        @Sendable func end() {
            if hasEnded.exchange(true, ordering: .acquiringAndReleasing) { return }
            // This is recorded before the connection is returned, because another access may use it then.
            interrupted.store(reader.wasInterrupted, ordering: .releasing)
            body()
        }

        /// Whether the read was interrupted. Valid after the end.
        var wasInterrupted: Bool { interrupted.load(ordering: .acquiring) }
    }

    /// Returns the error of a suspension if the read was interrupted because the pool is parked.
    private func named(_ error: any Error, _ wasInterrupted: Bool) -> any Error {
        guard wasInterrupted, let error = error as? DatabaseError, error.resultCode == .SQLITE_INTERRUPT else {
            return error
        }
        return DatabaseError.readInterrupted(path, sql: error.sql)
    }

    /// Lends a connection to a thread that holds the writer connection, for a read that ends later than this call. The receiver
    /// calls `give(_:)`, once.
    func takeInsideWrite() throws -> ReaderConnection {
        try willRead()
        return try take(enterBesideBarriers(), at: nil)
    }

    /// Lends a connection without blocking. The receiver calls `give(_:)`, once.
    func take(at site: CallSite?, _ body: @escaping @Sendable (Result<ReaderConnection, any Error>) -> Void) {
        do { try willRead() } catch { return body(.failure(error)) }
        request(.read, isPatient: true) { answer in body(Result { try self.take(answer, at: site) }) }
    }

    func give(_ reader: ReaderConnection) {
        let isLeaving = pump { state in
            state.running.end(reader)
            if state.admission.isClosed {
                state.admission.endRead()
                return false
            }
            // The connection counts as reading until its closing has begun.
            if state.admission.isParked { return true }
            state.admission.endRead()
            state.idle.append(reader)
            return false
        }
        if isLeaving { leave(reader) }
    }

    // MARK: Barriers

    func barrier<T>(_ body: () throws -> T) throws -> T {
        try check(wait(.barrier))
        defer { endBarrier() }
        return try body()
    }

    /// Runs `body` in a barrier that is also granted while the pool is parked.
    func closingBarrier<T>(_ body: () throws -> T) throws -> T {
        try check(wait(.closing))
        defer { endBarrier() }
        return try body()
    }

    func barrier<T: Sendable>(_ body: () async throws -> T) async throws -> T {
        // The barrier ends after `body`, in the task. So the task needs a thread also when the barrier is granted at once.
        try await withTaskExecutorPreference(lender) {
            try check(await wait(.barrier))
            defer { endBarrier() }
            return try await body()
        }
    }

    /// Requests a barrier without blocking. `body` ends the barrier by calling its argument, once.
    func barrier(_ body: @escaping @Sendable (Result<@Sendable () -> Void, any Error>) -> Void) {
        request(.barrier, isPatient: true) { answer in
            do {
                try self.check(answer)
                body(.success { self.endBarrier() })
            } catch {
                body(.failure(error))
            }
        }
    }

    // MARK: All connections

    /// Runs `body` in a read transaction on a connection of its own. It waits neither for other reads nor while the pool is
    /// parked.
    func withConnectionAside(_ body: (Database) throws -> Void) throws {
        let reader = try open()
        defer { try? reader.close() }
        try reader.queue.inDatabase { db in try reader.isolated(db, body) }
    }

    /// Runs `body` with a connection that stays open meanwhile. The connection may be in use, so `body` must not run statements
    /// on it.
    ///
    /// - returns: nil when no connection is open.
    func withOpenConnection<T: Sendable>(_ body: @Sendable (ReaderConnection) -> T?) -> T? {
        connections.withLock { connections in connections.first.flatMap(body) }
    }

    func interrupt() {
        connections.withLock { connections in
            for connection in connections { connection.queue.interrupt() }
        }
    }

    /// Closes the connections that are not in use. Call it inside a closing barrier, while the pool cannot be parked. Later reads open
    /// others.
    ///
    /// - throws: the error of a connection that stays open, because a statement or a cursor has outlived its read. It can be used again.
    func closeIdle() throws {
        let idle = state.withLock { state in
            defer { state.idle = [] }
            return state.idle
        }
        var firstError: (any Error)?
        for reader in idle {
            connections.withLock { connections in connections.removeAll { $0 === reader } }
            do {
                try reader.close()
            } catch {
                firstError = firstError ?? error
                connections.withLock { $0.append(reader) }
                state.withLock { $0.idle.append(reader) }
            }
        }
        if let firstError { throw firstError }
    }

    /// Closes all connections. Call it inside a closing barrier, after `closeIdle()`. Waiting and later reads fail. A statement or a cursor
    /// that has outlived a read within the last write keeps its connection open until it is released.
    func close() {
        let requests = state.withLock { state in
            state.idle = []
            return state.admission.close()
        }
        for request in requests { request.resume(.closed) }
        let connections = self.connections.withLock { connections in
            defer { connections = [] }
            return connections
        }
        for connection in connections { try? connection.close() }
    }

    // MARK: Parking

    var use: HeldConnection.Use { .reading }

    /// Stops granting requests, and closes the connections that are not in use. Waiting requests that block a thread fail.
    func park() -> Bool {
        let (idle, impatient) = state.withLock { state in
            // The connections count as reading until their closing has begun.
            let impatient = state.admission.park(leavingCount: state.idle.count)
            defer { state.idle = [] }
            return (state.idle, impatient)
        }
        for request in impatient { request.resume(.parked) }
        for reader in idle { leave(reader) }
        // A closing barrier may have waited behind other requests.
        pump { _ in }
        return true
    }

    /// - returns: the connections that are lent.
    func stepParking() -> [HeldConnection] {
        Array(repeating: HeldConnection(use: .reading), count: state.withLock { $0.admission.readCount })
    }

    /// Interrupts the running statements, and marks their connections, so that the reads throw the error of a suspension.
    func interruptParking() {
        connections.withLock { connections in
            for connection in connections {
                connection.isInterrupted.store(true, ordering: .releasing)
                connection.queue.interrupt()
            }
        }
    }

    /// Grants requests again, on newly opened connections.
    func unpark() {
        pump { $0.admission.unpark() }
    }

    private func leave(_ reader: ReaderConnection) {
        connections.withLock { connections in connections.removeAll { $0 === reader } }
        closings.begin(reader.queue, .reading) { _ in reader.finalize() }
        pump { $0.admission.endRead() }
    }

    // MARK: Showing

    /// Shows the oldest moment of the participant's snapshots; nil: the participant has no snapshots.
    func show(snapshot: (read: OldestRead, site: CallSite?)?) {
        state.withLock { $0.running.show(snapshot: snapshot) }
    }

    /// Shows the oldest read in a slot that the participant has claimed since.
    func showReadsAgain() { state.withLock { $0.running.showOldest() } }

    /// When this participant received a request to advance (rule K8); nil when it did not.
    var askedToAdvance: Nanoseconds? { state.withLock { $0.running.askedToAdvance } }

    /// Waits while the pool is parked.
    func waitWhileParked() async throws {
        try await withTaskExecutorPreference(lender) {
            try check(await wait(.read))
            pump { $0.admission.endRead() }
        }
    }

    // MARK: Waiting

    private func enterBesideBarriers() -> Answer {
        if let answer = answeredAtOnce(.read, isPatient: false) { return answer }
        return state.withLock { $0.admission.enterBesideBarriers() } ? .granted : wait(.read)
    }

    private func wait(_ kind: ReaderAdmission.Kind) -> Answer {
        if let answer = answeredAtOnce(kind, isPatient: false) { return answer }
        let waiting = Waiting()
        request(kind, isPatient: false, resume: waiting.end)
        return waiting.wait()
    }

    /// A cancelled task does not wait.
    private func wait(_ kind: ReaderAdmission.Kind) async -> Answer {
        if let answer = answeredAtOnce(kind, isPatient: true) { return answer }
        let id = nextID.wrappingAdd(1, ordering: .relaxed).newValue
        return await withTaskCancellationHandler {
            await withUnsafeContinuation { continuation in
                request(kind, isPatient: true, id: id) { continuation.resume(returning: $0) }
                if Task.isCancelled { cancel(id) }
            }
        } onCancel: {
            cancel(id)
        }
    }

    private func cancel(_ id: UInt64) {
        let request = pump { $0.admission.remove(id) }
        request?.resume(.cancelled)
    }

    /// Returns the answer to a request that need not wait; nil when the request has to wait.
    private func answeredAtOnce(_ kind: ReaderAdmission.Kind, isPatient: Bool) -> Answer? {
        state.withLock { $0.admission.answerAtOnce(kind, isPatient: isPatient) }
    }

    private func request(
        _ kind: ReaderAdmission.Kind,
        isPatient: Bool,
        id: UInt64 = 0,
        resume: @escaping @Sendable (Answer) -> Void
    ) {
        let request = ReaderAdmission.Request(id: id, kind: kind, isPatient: isPatient, resume: resume)
        let refusal = pump { $0.admission.add(request) }
        if let refusal { resume(refusal) }
    }

    /// Changes the state, then grants what can be granted now, in order.
    @discardableResult
    private func pump<T: Sendable>(_ change: (inout State) -> T) -> T {
        let (result, granted) = state.withLock { state in (change(&state), state.admission.grantNext()) }
        for request in granted { request.resume(.granted) }
        return result
    }

    private func check(_ answer: Answer) throws {
        switch answer {
        case .granted: if state.withLock({ $0.admission.isClosed }) { throw DatabaseError.closed(path) }
        case .closed: throw DatabaseError.closed(path)
        case .parked: throw DatabaseError.suspended(path)
        case .cancelled: throw CancellationError()
        }
    }

    /// The fast path of most reads: no request waits, and a connection is idle. Returns nil when the read has to request a
    /// connection.
    private func takeAtOnce(at site: CallSite?) -> ReaderConnection? {
        let idle = state.withLock { state -> ReaderConnection? in
            guard !state.idle.isEmpty, state.admission.answerAtOnce(.read, isPatient: true) == .granted else {
                return nil
            }
            return takeIdle(from: &state, at: site)
        }
        return idle
    }

    private func takeIdle(from state: inout State, at site: CallSite?) -> ReaderConnection? {
        guard let idle = state.idle.popLast() else { return nil }
        idle.isInterrupted.store(false, ordering: .relaxed)
        state.running.begin(idle, at: site)
        return idle
    }

    /// Returns a connection for a granted read, and opens it if none is idle.
    private func take(_ answer: Answer, at site: CallSite?) throws -> ReaderConnection {
        guard case .granted = answer else {
            try check(answer)
            preconditionFailure("only what is granted passes")
        }
        let (isClosed, idle) = state.withLock { state in
            let isClosed = state.admission.isClosed
            return (isClosed, isClosed ? nil : takeIdle(from: &state, at: site))
        }
        if isClosed { throw DatabaseError.closed(path) }
        if let idle { return idle }
        do {
            let reader = try open()
            connections.withLock { $0.append(reader) }
            state.withLock { $0.running.begin(reader, at: site) }
            return reader
        } catch {
            pump { $0.admission.endRead() }
            throw error
        }
    }

    private func endBarrier() {
        pump { $0.admission.endBarrier() }
    }
}

extension DatabaseError {
    static func readInterrupted(_ path: String, sql: String?) -> DatabaseError {
        DatabaseError(
            resultCode: .databaseSuspended,
            message: "\(path): interrupted, because the database was suspended. Try again after resume()",
            sql: sql
        )
    }
}
