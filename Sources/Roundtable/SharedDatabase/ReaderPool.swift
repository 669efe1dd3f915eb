import Dispatch
import GRDB
import Synchronization

/// Up to N reader connections, opened on demand, and lent one access at a time, first come first served. A barrier is
/// an access that has all of them.
final class ReaderPool: Sendable {
    private enum Kind { case read, barrier }

    private struct Request {
        let kind: Kind
        /// Called outside the lock, once the request is granted or the pool is closed.
        let resume: @Sendable () -> Void
    }

    private struct State {
        var idle: [ReaderConnection] = []
        /// Granted reads that have not ended.
        var reading = 0
        var hasBarrier = false
        var requests: [Request] = []
        var isClosed = false
    }

    private let maximumCount: Int
    private let open: @Sendable () throws -> ReaderConnection
    private let state = Mutex(State())
    /// All open connections, for `interrupt()`.
    private let connections = Mutex<[ReaderConnection]>([])

    init(maximumCount: Int, open: @escaping @Sendable () throws -> ReaderConnection) {
        self.maximumCount = max(1, maximumCount)
        self.open = open
    }

    // MARK: Reading

    /// - parameter insideWrite: whether the calling thread has the writer connection. A barrier needs that too, so its
    ///   body does not run now; waiting for it would be a deadlock.
    func withReader<T>(insideWrite: Bool, _ body: (ReaderConnection) throws -> T) throws -> T {
        if insideWrite { enterBesideBarriers() } else { wait(.read) }
        let reader = try takeGranted()
        defer { give(reader) }
        return try body(reader)
    }

    func withReader<T: Sendable>(_ body: (ReaderConnection) async throws -> T) async throws -> T {
        await wait(.read)
        let reader = try takeGranted()
        defer { give(reader) }
        return try await body(reader)
    }

    /// For reads that end later than this call, from a thread that has the writer connection. The receiver calls
    /// `give(_:)`, once.
    func takeInsideWrite() throws -> ReaderConnection {
        enterBesideBarriers()
        return try takeGranted()
    }

    /// The same, without blocking.
    func take(_ body: @escaping @Sendable (Result<ReaderConnection, any Error>) -> Void) {
        request(.read) { body(Result { try self.takeGranted() }) }
    }

    func give(_ reader: ReaderConnection) {
        pump { state in
            state.reading -= 1
            if !state.isClosed { state.idle.append(reader) }
        }
    }

    // MARK: Barriers

    func barrier<T>(_ body: () throws -> T) throws -> T {
        wait(.barrier)
        try checkGrantedBarrier()
        defer { endBarrier() }
        return try body()
    }

    func barrier<T: Sendable>(_ body: () async throws -> T) async throws -> T {
        await wait(.barrier)
        try checkGrantedBarrier()
        defer { endBarrier() }
        return try await body()
    }

    /// Without blocking. `body` ends the barrier by calling its argument, once.
    func barrier(_ body: @escaping @Sendable (Result<@Sendable () -> Void, any Error>) -> Void) {
        request(.barrier) {
            do {
                try self.checkGrantedBarrier()
                body(.success { self.endBarrier() })
            } catch {
                body(.failure(error))
            }
        }
    }

    // MARK: All connections

    func forEach(_ body: (ReaderConnection) throws -> Void) rethrows {
        for connection in connections.withLock({ $0 }) { try body(connection) }
    }

    /// Closes all connections. Call it inside a barrier. Reads that wait, and all that come later, fail.
    func close() throws {
        let requests = state.withLock { state in
            state.isClosed = true
            state.idle = []
            defer { state.requests = [] }
            return state.requests
        }
        for request in requests { request.resume() }
        let connections = self.connections.withLock { connections in
            defer { connections = [] }
            return connections
        }
        var firstError: (any Error)?
        for connection in connections {
            do { try connection.close() } catch { firstError = firstError ?? error }
        }
        if let firstError { throw firstError }
    }

    // MARK: Granting

    private func enterBesideBarriers() {
        if grantedAtOnce(.read) { return }
        let isBlocked = state.withLock { state in
            let isBlocked = state.hasBarrier || state.requests.contains { $0.kind == .barrier }
            if isBlocked { state.reading += 1 }
            return isBlocked
        }
        if !isBlocked { wait(.read) }
    }

    private func wait(_ kind: Kind) {
        if grantedAtOnce(kind) { return }
        let semaphore = DispatchSemaphore(value: 0)
        request(kind) { semaphore.signal() }
        semaphore.wait()
    }

    private func wait(_ kind: Kind) async {
        if grantedAtOnce(kind) { return }
        await withCheckedContinuation { continuation in
            request(kind) { continuation.resume() }
        }
    }

    private func grantedAtOnce(_ kind: Kind) -> Bool {
        state.withLock { state in
            guard !state.isClosed else { return true }
            guard state.requests.isEmpty else { return false }
            return grant(kind, in: &state)
        }
    }

    private func request(_ kind: Kind, resume: @escaping @Sendable () -> Void) {
        let isClosed = state.withLock { state in
            if !state.isClosed { state.requests.append(Request(kind: kind, resume: resume)) }
            return state.isClosed
        }
        if isClosed { resume() } else { pump { _ in } }
    }

    private func grant(_ kind: Kind, in state: inout State) -> Bool {
        if state.hasBarrier { return false }
        switch kind {
        case .read:
            guard state.reading < maximumCount else { return false }
            state.reading += 1
        case .barrier:
            guard state.reading == 0 else { return false }
            state.hasBarrier = true
        }
        return true
    }

    /// Changes the state, then grants what can be granted now, in order.
    private func pump(_ change: (inout State) -> Void) {
        let granted = state.withLock { state in
            change(&state)
            var granted: [Request] = []
            while let first = state.requests.first, grant(first.kind, in: &state) {
                granted.append(state.requests.removeFirst())
            }
            return granted
        }
        for request in granted { request.resume() }
    }

    private func takeGranted() throws -> ReaderConnection {
        let (isClosed, idle) = state.withLock { ($0.isClosed, $0.idle.popLast()) }
        if isClosed { throw DatabaseError.closed }
        if let idle { return idle }
        do {
            let reader = try open()
            connections.withLock { $0.append(reader) }
            return reader
        } catch {
            pump { $0.reading -= 1 }
            throw error
        }
    }

    private func checkGrantedBarrier() throws {
        if state.withLock({ $0.isClosed }) { throw DatabaseError.closed }
    }

    private func endBarrier() {
        pump { $0.hasBarrier = false }
    }
}
