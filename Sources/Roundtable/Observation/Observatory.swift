import Foundation
import GRDB
import RoundtableKernel
import Synchronization

/// What a `SharedDatabase` has for those who observe: made when somebody first does, so that nobody else pays for it.
final class Observatory: Sendable {
    enum State {
        case idle
        case running(ObservationConnection, ChangeFeed)
        /// Without a connection, and without getting one. The position: where the feed was.
        case parked(ChangeFeed.Position?)
        /// The same, until somebody wants one.
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
    /// Whether `state` is running: asked at each commit.
    let isRunning = Atomic(false)
    /// The connection of `state`, for those who must not wait for it.
    let connection = Mutex<ObservationConnection?>(nil)
    let subscribers = ChangeSubscribers()
    /// Hand changes to GRDB's observers, of the observation connection and of the writer connection; nil until there may be some.
    let valueBridge = Mutex<ObserverBridge?>(nil)
    let writerBridge = Mutex<ObserverBridge?>(nil)
    /// Somebody observes on the writer since this was parked.
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

    /// The last commit that SQLite counts; nil while it cannot be told: when nobody observes, or it is being written. Waits for nobody.
    ///
    /// Who closes the connection takes it out of `connection` before, so it is open here.
    var lastCommit: WalIndex.Header? { connection.withLock { $0?.commitCounter.header } }

    // MARK: GRDB's observers

    /// Starts an observation; where the database is suspended, when it is resumed.
    ///
    /// - parameter isLate: whether it is started again, and its scheduler's thread is not the present one.
    func start(_ observation: PersistentObservation, isLate: Bool = false) throws {
        observations.withLock { $0[ObjectIdentifier(observation)] = observation }
        do {
            try withConnection { connection in
                if observation.isOnWriter { observeOnWriterEventually() }
                let queue = observation.isOnWriter ? try writer.openedQueue() : connection.queue
                observation.start(on: queue, isLate: isLate)
            }
        } catch let error as DatabaseError where error.isSuspension {
            // `unpark` will.
        } catch is NotBegun {
            // The gate was closed, and perhaps nothing will be parked.
            DispatchQueue.global().asyncAfter(deadline: .now() + .seconds(1)) { [weak self] in self?.goOn() }
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

    /// Lends the connection that value observations fetch on, to start one.
    private func withConnection<T>(_ body: (ObservationConnection) throws -> T) throws -> T {
        // A connection is not closed meanwhile: an observation that starts on a closed one is a crash in GRDB.
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

    /// Tells the observers of the writer connection too, from now on.
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

    /// Makes a bridge, if there is none yet.
    private func bridge(
        _ existing: borrowing Mutex<ObserverBridge?>,
        _ feed: ChangeFeed,
        schedule: @escaping @Sendable (@escaping @Sendable (Database, ObserverBridge.Notify) -> Void) -> Bool
    ) {
        // Whoever finds a bridge relies on it, so it is subscribed before.
        existing.withLock { existing in
            if existing != nil { return }
            let bridge = ObserverBridge(schedule: schedule)
            if isPaused.load(ordering: .sequentiallyConsistent) { bridge.pause() }
            _ = feed.subscribe { changes in
                // Own commits have another way: GRDB's, or `didCommit`.
                if let tables = Change.tables(of: changes.filter { !$0.isOwn }) { bridge.add(tables) }
            }
            existing = bridge
        }
    }

    /// GRDB notifies observers of a change of the schema as of a change of all tables that exist. An observation whose tables have all been dropped
    /// is not notified, so it starts again here: it fetches, and fails if it needs them. When one of them is back, it starts again, too. Runs on
    /// the queue of the connection that was notified.
    private func didNotify(_ db: Database, _ tables: Change.Tables, onWriter: Bool) {
        let observations = observations.withLock { $0.values.filter { $0.tellsAnew && $0.isOnWriter == onWriter } }
        guard tables == .fullDatabase, !observations.isEmpty else { return }
        // What cannot be read now is read after the next change of the schema.
        let sql = "SELECT name FROM sqlite_master WHERE type = 'table'"
        guard let names = try? String.fetchAll(db.cachedStatement(sql: sql)) else { return }
        let outdated = observations.filter { $0.region.needsRestart(names) }
        if outdated.isEmpty { return }
        for observation in outdated { observation.park() }
        DispatchQueue.global().async { [weak self] in self?.goOn() }
    }

    /// `observeOnWriter`, tried again while there are no descriptors or threads to be had.
    ///
    /// - parameter isLate: whether observers have been there before: they may have missed anything.
    func observeOnWriterEventually(isLate: Bool = false) {
        do {
            try observeOnWriter()
            if isLate { writerBridge.withLock { $0 }?.add(.fullDatabase) }
        } catch DatabaseError.SQLITE_MISUSE {
            // Closed.
        } catch let error as DatabaseError where error.isSuspension {
            isWriterWaiting.store(true, ordering: .sequentiallyConsistent)
        } catch {
            DispatchQueue.global().asyncAfter(deadline: .now() + .seconds(1)) { [weak self] in
                self?.observeOnWriterEventually(isLate: true)
            }
        }
    }

    // MARK: Changes

    /// A consumer of changes in a region, from now on.
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
        // Closed since: nobody else would end it.
        if isClosed { buffer.finish() }
        return buffer
    }

    /// A commit of this participant. On the writer's queue.
    func didCommit(_ commit: () -> CommitRecorder.Commit) {
        guard isRunning.load(ordering: .acquiring) else { return }
        let commit = commit()
        if !commit.isPublished { unseated.add(counter: commit.counter, tables: commit.tables) }
        if commit.tables.isEmpty { return }
        valueBridge.withLock { $0 }?.add(commit.tables)
    }

    // MARK: Opening and closing

    /// Who wants to know that this is closed.
    private final class Follower: Sendable {
        let end: @Sendable () -> Void
        init(_ end: @escaping @Sendable () -> Void) { self.end = end }
    }

    /// Calls a closure when this is closed, once, unless what is returned is cancelled or released before.
    ///
    /// - throws: `SQLITE_MISUSE` when it is closed already.
    func onClose(_ end: @escaping @Sendable () -> Void) throws -> AnyDatabaseCancellable {
        let follower = Follower(end)
        let key = ObjectIdentifier(follower)
        followers.withLock { $0[key] = follower }
        let cancellable = AnyDatabaseCancellable { [weak self] in self?.followers.withLock { $0[key] = nil } }
        // Closed since: nobody else would say so.
        if isClosed { throw DatabaseError.closed(path) }
        return cancellable
    }

    /// How many of these wait. For tests.
    var followerCount: Int { followers.withLock { $0.count } }

    private var isClosed: Bool {
        state.withLock { state in
            if case .closed = state { return true }
            return false
        }
    }

    /// Whoever observes is told nothing more.
    ///
    /// - parameter waiting: whether to wait for what runs on the connection, and close it; else it closes by itself.
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
        // Else it closes when the last observation ends.
        if waiting, borrowers.withLock({ $0 == 0 }) { connection.close() } else { connection.letGo() }
    }

    /// Opens the connection where there is none; changes that were missed have been told then.
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
