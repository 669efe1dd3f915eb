import Foundation
import GRDB
import RoundtableKernel
import Synchronization

/// What a `SharedDatabase` has for those who observe: made when somebody first does, so that nobody else pays for it.
final class Observatory: Sendable {
    private enum State {
        case idle
        case running(ObservationConnection, ChangeFeed)
        case closed
    }

    private let path: String
    private let author: String
    private let options: SharedDatabase.Options
    private let writer: WriterConnection
    private let seat: Seat
    private let unseated = UnseatedCommits()
    private let state = Mutex(State.idle)
    /// Whether `state` is running: asked at each commit.
    private let isRunning = Atomic(false)
    /// Hand changes to GRDB's observers, of the observation connection and of the writer connection; nil until there may be some.
    private let valueBridge = Mutex<ObserverBridge?>(nil)
    private let writerBridge = Mutex<ObserverBridge?>(nil)
    private let borrowers = Mutex(0)
    private let consumers = Mutex<[ObjectIdentifier: ChangeBuffer]>([:])

    init(path: String, author: String, options: SharedDatabase.Options, writer: WriterConnection, seat: Seat) {
        self.path = path
        self.author = author
        self.options = options
        self.writer = writer
        self.seat = seat
    }

    /// Lends the connection that value observations fetch on, to start one.
    func withConnection<T>(_ body: (ObservationConnection) -> T) throws -> T {
        // A connection is not closed meanwhile: an observation that starts on a closed one is a crash in GRDB.
        borrowers.withLock { $0 += 1 }
        defer { borrowers.withLock { $0 -= 1 } }
        let (connection, feed) = try running()
        bridge(
            valueBridge,
            feed,
            schedule: { [weak connection] body in connection?.queue.asyncWriteWithoutTransaction { body($0) } },
            notify: { [weak connection] db, tables in try connection?.notify(db, tables) }
        )
        return body(connection)
    }

    /// Tells the observers of the writer connection too, from now on.
    func observeOnWriter() throws {
        bridge(
            writerBridge,
            try running().feed,
            schedule: { [weak writer] body in writer?.queue.asyncWriteWithoutTransaction { body($0) } },
            notify: { [weak writer] db, tables in try writer?.notify(db, tables) }
        )
    }

    /// Makes a bridge, if there is none yet, for as long as the feed runs.
    private func bridge(
        _ existing: borrowing Mutex<ObserverBridge?>,
        _ feed: ChangeFeed,
        schedule: @escaping @Sendable (_ body: @escaping @Sendable (Database) -> Void) -> Void,
        notify: @escaping @Sendable (Database, Change.Tables) throws -> Void
    ) {
        // Whoever finds a bridge relies on it, so it is subscribed before.
        existing.withLock { existing in
            if existing != nil { return }
            let bridge = ObserverBridge(schedule: schedule, notify: notify)
            _ = feed.subscribe { changes in
                // Own commits have another way: GRDB's, or `didCommit`.
                if let tables = Change.tables(of: changes.filter { !$0.isOwn }) { bridge.add(tables) }
            }
            existing = bridge
        }
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
        } catch {
            DispatchQueue.global().asyncAfter(deadline: .now() + .seconds(1)) { [weak self] in
                self?.observeOnWriterEventually(isLate: true)
            }
        }
    }

    /// A consumer of changes in a region, from now on.
    func consumer(of region: DatabaseRegion, capacity: Int) throws -> ChangeBuffer {
        let feed = try running().feed
        let buffer = ChangeBuffer(capacity: capacity)
        let id = feed.subscribe { [weak buffer] changes in
            guard let buffer else { return }
            for change in changes where region.isFullDatabase || change.mayModify(region) { buffer.append(change) }
        }
        let key = ObjectIdentifier(buffer)
        buffer.onEnd { [weak self] in
            feed.unsubscribe(id)
            self?.consumers.withLock { $0[key] = nil }
        }
        consumers.withLock { $0[key] = buffer }
        // Closed since: nobody else would end it.
        if !isRunning.load(ordering: .sequentiallyConsistent) { buffer.finish() }
        return buffer
    }

    /// A commit of this participant. On the writer's queue.
    func didCommit(_ commit: CommitRecorder.Commit) {
        guard isRunning.load(ordering: .acquiring) else { return }
        if !commit.isPublished { unseated.add(counter: commit.counter, tables: commit.tables) }
        if commit.tables.isEmpty { return }
        valueBridge.withLock { $0 }?.add(commit.tables)
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
        guard case .running(let connection, let feed) = last else { return }
        feed.stop()
        for buffer in consumers.withLock({ Array($0.values) }) { buffer.finish() }
        connection.endWaiting()
        // Else it closes when the last observation ends.
        if waiting, borrowers.withLock({ $0 == 0 }) { connection.close() } else { connection.letGo() }
    }

    private func running() throws -> (connection: ObservationConnection, feed: ChangeFeed) {
        try state.withLock { state in
            switch state {
            case .closed: throw DatabaseError.closed
            case .running(let connection, let feed): return (connection, feed)
            case .idle: break
            }
            let connection = try ObservationConnection(path: path, options: options)
            let feed = try ChangeFeed(
                databasePath: path,
                author: author,
                connection: connection,
                unseated: unseated,
                owns: { [weak seat] in seat?.owns($0, in: $1) ?? false }
            )
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
