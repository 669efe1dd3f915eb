import Foundation
import GRDB
import RoundtableKernel
import Synchronization

/// The observations of a `SharedDatabase`. The connection and the feed are made for the first of them, so a participant without
/// observations does not pay for them.
final class Observatory: Sendable {
    enum State {
        case idle
        case running(ObservationConnection, ChangeFeed)
        /// There is no connection, and none may be opened. The value is the position of the last feed.
        case parked(ChangeFeed.Position?)
        /// There is no connection until an observation needs one. The value is the position of the last feed.
        case resting(ChangeFeed.Position?)
        case closed
    }

    private let path: String
    private let author: String
    private let options: SharedDatabase.Options
    let writer: WriterConnection
    private let seat: Seat
    private let unseated = UnseatedCommits()
    let state = Mutex(State.idle)
    /// Whether `state` is running. It is read at each commit.
    let isRunning = Atomic(false)
    /// The connection of `state`, for callers that must not wait for the lock of `state`.
    let connection = Mutex<ObservationConnection?>(nil)
    let subscribers = ChangeSubscribers()
    /// The bridges deliver changes to GRDB's observers of the observation connection and of the writer connection; nil until there may be
    /// some.
    let valueBridge = Mutex<ObserverBridge?>(nil)
    let writerBridge = Mutex<ObserverBridge?>(nil)
    /// Whether an observation on the writer was started while this was parked.
    let isWriterWaiting = Atomic(false)
    let borrowers = Mutex(0)
    private let consumers = Mutex<[ObjectIdentifier: ChangeBuffer]>([:])
    private let followers = Mutex<[ObjectIdentifier: Follower]>([:])
    let observations = Mutex<[ObjectIdentifier: PersistentObservation]>([:])
    let leaving = Mutex(Leaving())
    let isPaused = Atomic(false)

    init(path: String, author: String, options: SharedDatabase.Options, writer: WriterConnection, seat: Seat) {
        self.path = path
        self.author = author
        self.options = options
        self.writer = writer
        self.seat = seat
    }

    /// The last commit in SQLite's count; nil when nothing is observed, and while the wal-index header is being written. It waits for no
    /// commit.
    ///
    /// A connection is removed from `connection` before it is closed, so it is open here.
    var lastCommit: WalIndex.Header? { connection.withLock { $0?.commitCounter.header } }

    // MARK: GRDB's observers

    /// Starts an observation. If the database is suspended, the observation starts when it is resumed.
    ///
    /// - parameter isLate: whether the observation is restarted. Its scheduler's thread is then not the present one.
    func start(_ observation: PersistentObservation, isLate: Bool = false) throws {
        observations.withLock { $0[ObjectIdentifier(observation)] = observation }
        do {
            try withConnection { connection in
                if observation.isOnWriter { observeOnWriterEventually() }
                let queue = observation.isOnWriter ? try writer.openedQueue() : connection.queue
                observation.start(on: queue, isLate: isLate)
            }
        } catch let error as DatabaseError where error.isSuspension {
            // The observation starts after `unpark`.
        } catch is NotBegun {
            // The gate was closed. Possibly nothing will be parked, so `unpark` may never be called.
            DispatchQueue.global().asyncAfter(deadline: .now() + .seconds(1)) { [weak self] in
                self?.restartObservations()
            }
        } catch {
            if !isLate { end(observation) }
            throw error
        }
        if observation.hasEnded { end(observation) }
    }

    func end(_ observation: PersistentObservation) {
        observations.withLock { $0[ObjectIdentifier(observation)] = nil }
        observation.end()
    }

    /// Lends the observation connection to `body`, which starts an observation on it.
    private func withConnection<T>(_ body: (ObservationConnection) throws -> T) throws -> T {
        // The connection is not closed meanwhile, because GRDB crashes when an observation starts on a closed connection.
        borrowers.withLock { $0 += 1 }
        defer {
            if borrowers.withLock({ borrowers in
                borrowers -= 1
                return borrowers == 0
            }) {
                closeReturned()
            }
        }
        let (connection, feed) = try running()
        bridge(valueBridge, feed) { [weak self] body in
            guard let connection = self?.connection.withLock({ $0 }) else { return false }
            connection.queue.asyncWriteWithoutTransaction { [weak self, weak connection] db in
                guard let connection else { return }
                body(db) { db, tables in
                    try connection.notify(db, tables)
                    self?.didNotify(db, tables, onWriter: false)
                }
            }
            return true
        }
        return try body(connection)
    }

    /// Notifies the observers of the writer connection too, from now on.
    func observeOnWriter() throws {
        if writerBridge.withLock({ $0 != nil }), !isClosed { return }
        bridge(writerBridge, try running().feed) { [weak self, weak writer] body in
            writer?.soon { [weak self, weak writer] db in
                guard let writer else { return }
                body(db) { db, tables in
                    try writer.notify(db, tables)
                    self?.didNotify(db, tables, onWriter: true)
                }
            }
            return writer != nil
        }
    }

    /// Makes a bridge if there is none yet.
    private func bridge(
        _ existing: borrowing Mutex<ObserverBridge?>,
        _ feed: ChangeFeed,
        schedule: @escaping @Sendable (@escaping @Sendable (Database, ObserverBridge.Notify) -> Void) -> Bool
    ) {
        // A caller that finds a bridge relies on its subscription, so the bridge subscribes before it is stored.
        existing.withLock { existing in
            if existing != nil { return }
            let bridge = ObserverBridge(schedule: schedule)
            if isPaused.load(ordering: .sequentiallyConsistent) { bridge.pause() }
            _ = feed.subscribe { changes in
                // Own commits reach the observers in another way: through GRDB, or through `didCommit`.
                if let tables = Change.tables(of: changes.filter { !$0.isOwn }) { bridge.add(tables) }
            }
            existing = bridge
        }
    }

    /// Restarts observations whose tables were dropped or are back. GRDB notifies observers of a change of the schema as of a change of
    /// all tables that exist. An observation whose tables have all been dropped is not notified, so it starts again here: it fetches, and
    /// fails if it needs them. It also starts again when one of them is back. This runs on the queue of the connection that was notified.
    private func didNotify(_ db: Database, _ tables: Change.Tables, onWriter: Bool) {
        let observations = observations.withLock { $0.values.filter { $0.notifiesAgain && $0.isOnWriter == onWriter } }
        guard tables == .fullDatabase, !observations.isEmpty else { return }
        // If the tables cannot be read now, they are read after the next change of the schema.
        let sql = "SELECT name FROM sqlite_master WHERE type = 'table'"
        guard let names = try? String.fetchAll(db.cachedStatement(sql: sql)) else { return }
        let outdated = observations.filter { $0.region.needsRestart(names) }
        if outdated.isEmpty { return }
        for observation in outdated { observation.park() }
        DispatchQueue.global().async { [weak self] in self?.restartObservations() }
    }

    /// Calls `observeOnWriter`, and retries every second if it fails, for example because the process has no descriptors or threads left.
    ///
    /// - parameter isLate: whether observers may have missed changes. They are then notified that anything may have changed.
    func observeOnWriterEventually(isLate: Bool = false) {
        do {
            try observeOnWriter()
            if isLate { writerBridge.withLock { $0 }?.add(.fullDatabase) }
        } catch DatabaseError.SQLITE_MISUSE {
            // The database was closed.
        } catch let error as DatabaseError where error.isSuspension {
            isWriterWaiting.store(true, ordering: .sequentiallyConsistent)
        } catch {
            DispatchQueue.global().asyncAfter(deadline: .now() + .seconds(1)) { [weak self] in
                self?.observeOnWriterEventually(isLate: true)
            }
        }
    }

    // MARK: Changes

    /// Adds a consumer of changes in a region, from now on.
    func consumer(of region: DatabaseRegion, capacity: Int) throws -> ChangeBuffer {
        let feed = try running().feed
        let buffer = ChangeBuffer(capacity: capacity)
        let id = feed.subscribe { [weak buffer] changes in
            guard let buffer else { return }
            for change in changes where region.isFullDatabase || change.mayModify(region) { buffer.append(change) }
        }
        let key = ObjectIdentifier(buffer)
        buffer.onEnd { [weak self, subscribers] in
            subscribers.remove(id)
            self?.consumers.withLock { $0[key] = nil }
        }
        consumers.withLock { $0[key] = buffer }
        // If this was closed meanwhile, `close` may have missed the consumer.
        if isClosed { buffer.finish() }
        return buffer
    }

    /// Called after a commit of this participant, on the writer's queue.
    func didCommit(_ commit: () -> CommitRecorder.Commit) {
        guard isRunning.load(ordering: .acquiring) else { return }
        let commit = commit()
        if !commit.isPublished { unseated.add(counter: commit.counter, tables: commit.tables) }
        if commit.tables.isEmpty { return }
        valueBridge.withLock { $0 }?.add(commit.tables)
    }

    // MARK: Opening and closing

    /// A closure that is called when this is closed.
    private final class Follower: Sendable {
        let end: @Sendable () -> Void
        init(_ end: @escaping @Sendable () -> Void) { self.end = end }
    }

    /// Calls a closure once, when this is closed, unless the returned value is cancelled or released before.
    ///
    /// - throws: `SQLITE_MISUSE` when it is closed already.
    func onClose(_ end: @escaping @Sendable () -> Void) throws -> AnyDatabaseCancellable {
        let follower = Follower(end)
        let key = ObjectIdentifier(follower)
        followers.withLock { $0[key] = follower }
        let cancellable = AnyDatabaseCancellable { [weak self] in self?.followers.withLock { $0[key] = nil } }
        // If this was closed meanwhile, `close` may have missed the closure.
        if isClosed { throw DatabaseError.closed(path) }
        return cancellable
    }

    /// The number of closures that wait for the close, for tests.
    var followerCount: Int { followers.withLock { $0.count } }

    private var isClosed: Bool {
        state.withLock { state in
            if case .closed = state { return true }
            return false
        }
    }

    /// Ends all observations and consumers.
    ///
    /// - parameter waiting: whether to wait for accesses that run on the connection, and then close it. Otherwise it closes when they
    ///   have ended.
    func close(waiting: Bool) {
        let last = state.withLock { state in
            defer { state = .closed }
            return state
        }
        isRunning.store(false, ordering: .sequentiallyConsistent)
        connection.withLock { $0 = nil }
        for follower in followers.withLock({ Array($0.values) }) { follower.end() }
        defer { for buffer in consumers.withLock({ Array($0.values) }) { buffer.finish() } }
        if waiting { _ = stepParking() }
        guard case .running(let connection, let feed) = last else { return }
        feed.stop()
        connection.endWaiting()
        // Otherwise the connection closes when the last observation ends.
        if waiting, borrowers.withLock({ $0 == 0 }) { connection.close() } else { connection.letGo() }
    }

    /// Opens the connection if there is none. Missed changes have been delivered when this returns.
    @discardableResult
    func running() throws -> (connection: ObservationConnection, feed: ChangeFeed) {
        try state.withLock { state in
            var position: ChangeFeed.Position?
            switch state {
            case .closed: throw DatabaseError.closed(path)
            case .parked: throw DatabaseError.suspended(path)
            case .running(let connection, let feed): return (connection, feed)
            case .idle: break
            case .resting(let last): position = last
            }
            let connection = try ObservationConnection(path: path, options: options)
            let feed = ChangeFeed(
                databasePath: path,
                author: author,
                connection: connection,
                unseated: unseated,
                subscribers: subscribers,
                from: position,
                isPaused: isPaused.load(ordering: .sequentiallyConsistent),
                owns: { [weak seat] in seat?.owns($0, in: $1) ?? false }
            )
            self.connection.withLock { $0 = connection }
            feed.start()
            state = .running(connection, feed)
            isRunning.store(true, ordering: .sequentiallyConsistent)
            return (connection, feed)
        }
    }
}

extension Change {
    /// All tables of some changes; nil when there are no changes.
    static func tables(of changes: [Change]) -> Tables? {
        changes.dropFirst().reduce(changes.first?.tables) { $0?.union($1.tables) }
    }

    func mayModify(_ region: DatabaseRegion) -> Bool {
        switch tables {
        case .fullDatabase: !region.isEmpty
        case .some(let names): names.contains { region.isModified(byEventsOfKind: .insert(tableName: $0)) }
        }
    }
}
