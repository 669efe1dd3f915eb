import Foundation
import GRDB
import RoundtableKernel
import Synchronization

/// The observations of a `SharedDatabase`. The connection and the feed are made for the first of them, so a participant without
/// observations does not pay for them.
///
/// # Locks
///
/// 1. `transitions` is held while the connection is opened, while the feed is started, stopped, paused or resumed, and while a bridge is
///    made. A second caller waits for a connection that is being opened instead of opening another one. Parking and closing wait for it
///    too, so that no connection opens behind them.
/// 2. `state` guards everything that changes. It is held for a few instructions.
///
/// While `transitions` is held, `state` may be taken, and the locks of the feed, of its subscribers, of the bridges, and of
/// `WriterConnection.link`, through which a bridge schedules a delivery. While `state` is held, no other lock is taken, no closure of a
/// caller runs, and nothing is opened, closed or released. The caller of a function here may hold the lock of `Parking`, and may be on
/// the queue of a connection. It must hold no lock that is named here.
final class Observatory: Sendable {
    typealias State = ObservatoryState<ObservationConnection, ChangeFeed, ChangeFeed.Position>

    private let path: String
    private let author: String
    private let options: SharedDatabase.Options
    let writer: WriterConnection
    let closings: ConnectionClosings
    private let seat: Seat
    private let rejoining: Rejoining
    private let uncoordinated = CommitsWithoutSeat()
    private let subscribers = ChangeSubscribers()
    let trouble: RetryTrouble<ObservationStep>

    let files: DatabaseFiles
    let transitions = NSLock()
    let state = Mutex(State())
    /// Whether `state` is running. It is read at each commit, without the lock.
    let isRunning = Atomic(false)

    init(
        path: String,
        author: String,
        options: SharedDatabase.Options,
        writer: WriterConnection,
        closings: ConnectionClosings,
        seat: Seat,
        rejoining: Rejoining
    ) {
        self.rejoining = rejoining
        files = options.files ?? DatabaseFiles(databasePath: path)
        self.path = path
        self.author = author
        self.options = options
        self.writer = writer
        self.closings = closings
        self.seat = seat
        trouble = RetryTrouble(
            options.reporter,
            interrupted: { ObservationEvent.interrupted($0) },
            resumed: { ObservationEvent.resumed(after: $0) }
        )
    }

    /// The last commit in SQLite's count; nil when nothing is observed, and while the wal-index header is being written. It waits neither
    /// for a commit nor for a connection that is being opened.
    ///
    /// A connection is removed from `state` before it is closed. So it is open here, where the lock is held.
    var lastCommit: WalIndex.Header? { state.withLock { $0.connection?.walIndex.header } }

    /// The frames of the WAL; nil when nothing is observed, and while the wal-index header is being written.
    var frames: WalIndex.Frames? { state.withLock { $0.connection?.walIndex.frames } }

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
            _ = self?.state.withLock { $0.removeConsumer(key) }
        }
        if !state.withLock({ $0.add(buffer) }) { buffer.finish() }
        return buffer
    }

    /// Calls a closure after commits of any process that this participant learns of. Call this once.
    func onNews(_ body: @escaping @Sendable () -> Void) { _ = subscribers.add { _ in body() } }

    // MARK: Opening and closing

    /// The number of closures that wait for the close, for tests.
    var followerCount: Int { state.withLock { $0.followers.count } }

    /// Ends all observations and consumers.
    ///
    /// - Parameters:
    ///   - waiting: whether to wait for accesses that run on the connection, and then close it. Otherwise it closes when they have ended.
    ///   - failure: the error with which observations and consumers end; nil: consumers end without an error, and observations without a
    ///     word.
    func close(waiting: Bool, failing failure: (any Error)? = nil) {
        let ended = transitions.withLock {
            let ended = state.withLock { $0.close() }
            isRunning.store(false, ordering: .sequentiallyConsistent)
            return ended
        }
        for end in ended.followers { end() }
        defer { for buffer in ended.consumers { buffer.finish(throwing: failure) } }
        if let failure { for observation in ended.observations { observation.fail(failure) } }
        guard let (connection, feed) = ended.running else { return }
        feed.stop()
        connection.endWaiting()
        // Otherwise the connection closes when the last observation ends.
        if waiting, state.withLock({ $0.borrowers == 0 }) { connection.close() } else { connection.closeWhenUnused() }
    }

    /// Ends all observations and consumers with an error.
    func fail(_ error: any Error) { close(waiting: false, failing: error) }

    /// Opens the connection if there is none. Missed changes have been delivered when this returns.
    @discardableResult
    func running() throws -> State.Running {
        if let running = try present() { return running }
        return try transitions.withLock {
            // Another thread may have opened the connection meanwhile.
            if let running = try present() { return running }
            let position = state.withLock { $0.lastPosition }
            let connection = try ObservationConnection(path: path, options: options)
            let isPaused = state.withLock { $0.start(connection) }
            let feed = ChangeFeed(
                databasePath: path,
                author: author,
                connection: connection,
                uncoordinated: uncoordinated,
                subscribers: subscribers,
                files: files,
                from: position,
                isPaused: isPaused,
                owns: { [weak seat] in seat?.owns($0, in: $1) ?? false },
                didCompareBlock: { [rejoining] isNew in if isNew { rejoining.follow() } else { rejoining.look() } },
                answer: { [weak seat] in seat?.answer($0, in: $1) }
            )
            feed.start()
            state.withLock { $0.run(feed) }
            isRunning.store(true, ordering: .sequentiallyConsistent)
            return (connection, feed)
        }
    }

    /// - returns: nil when the connection must be opened.
    private func present() throws -> State.Running? {
        switch state.withLock({ $0.phase }) {
        case .running(let connection, let feed): return (connection, feed)
        case .resting, .starting: return nil
        case .parked: throw DatabaseError.suspended(path)
        case .closed: throw files.failure ?? DatabaseError.closed(path) as any Error
        }
    }
}

// MARK: - Own commits

extension Observatory {
    /// Called on the writer's queue when a commit can be read. The writer still holds the turn, so it must be quick. It calls its argument
    /// if it needs the commit.
    func didCommit(_ commit: () -> CommitRecorder.Commit) {
        guard isRunning.load(ordering: .acquiring) else { return }
        let commit = commit()
        if !commit.isPublished { uncoordinated.add(counter: commit.counter, tables: commit.tables) }
        if commit.tables.isEmpty { return }
        state.withLock { $0.valueBridge }?.add(commit.tables)
        if commit.isElsewhere { notifyWriter(commit.tables) }
    }
}

extension DatabaseChange {
    /// All tables of some changes; nil when there are no changes.
    static func tables(of changes: [DatabaseChange]) -> Tables? {
        changes.dropFirst().reduce(changes.first?.tables) { $0?.union($1.tables) }
    }

    func mayModify(_ region: DatabaseRegion) -> Bool {
        switch tables {
        case .fullDatabase: !region.isEmpty
        case .some(let names): names.contains { region.isModified(byEventsOfKind: .insert(tableName: $0)) }
        }
    }
}
