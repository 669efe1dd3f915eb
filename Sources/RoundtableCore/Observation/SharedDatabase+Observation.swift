import Dispatch
import Foundation
import GRDB
import Synchronization

extension SharedDatabase {
    /// The commits of all processes that may have changed a region, in commit order, from this call on. Those before the first iteration
    /// wait for it.
    ///
    /// ```swift
    /// for try await change in db.changes(in: Player.all()) {
    ///     print(change.author ?? "unknown", change.tables)
    /// }
    /// ```
    ///
    /// A change is reported as soon as it can be read. A slow consumer delays no writer and no other consumer: when 256 changes wait for
    /// it, later ones are reported as one (``DatabaseChange/Detail-swift.enum/several``). The sequence ends when the task is cancelled, and when
    /// the database is closed. It keeps the database open.
    ///
    /// A sequence serves one consumer: call this again for another. The first observation of a `SharedDatabase` opens a connection.
    ///
    /// - parameter regions: the regions to observe, by table. Without any, all commits are reported.
    /// - throws: (in the loop) `DatabaseError`, when the region cannot be determined or the database cannot be opened;
    ///   ``SharedDatabaseError/fileLost(path:_:)``.
    public func changes(in regions: any DatabaseRegionConvertible...) -> DatabaseChanges {
        DatabaseChanges(Result { try checkedConsumer(of: regions) }, database: self)
    }

    /// Calls a closure with the commits of all processes that may have changed a region, in commit order, from now on.
    ///
    /// - Parameters:
    ///   - regions: the regions to observe, by table. Without any, all commits are reported.
    ///   - queue: where the closure runs, one call at a time. While it runs, up to 256 changes wait; later ones are reported as one. With
    ///     nil, the closure runs on the thread that detects commits, which is the fastest way. This process detects no other commits
    ///     while the closure runs, so it must be quick.
    ///   - onChange: called with each change. It may cancel, and use or close the database. It learns of no error: when a file of the
    ///     database is lost, the calls end (``SharedDatabaseError/fileLost(path:_:)``).
    /// - returns: a value that ends the calls when it is cancelled or released. It keeps the database open.
    /// - throws: `DatabaseError`, when the region cannot be determined or the database cannot be opened.
    public func observeChanges(
        in regions: any DatabaseRegionConvertible...,
        on queue: DispatchQueue? = .main,
        onChange: @escaping @Sendable (DatabaseChange) -> Void
    ) throws -> AnyDatabaseCancellable {
        let buffer = try checkedConsumer(of: regions)
        let calls = CallbackCalls(buffer: buffer, queue: queue, onChange: onChange)
        buffer.onAppend { calls.schedule() }
        calls.schedule()
        return AnyDatabaseCancellable { [self] in
            withExtendedLifetime(self) { buffer.finish(dropping: true) }
        }
    }

    private func checkedConsumer(of regions: [any DatabaseRegionConvertible]) throws -> ChangeBuffer {
        try checkProcess()
        guard !regions.isEmpty else { return try observatory.consumer(of: .fullDatabase, capacity: 256) }
        let region = try unsafeReentrantRead { db in
            try regions.reduce(into: DatabaseRegion()) { try $0.formUnion($1.databaseRegion(db)) }
        }
        return try observatory.consumer(of: region, capacity: 256)
    }

    /// Adds one of GRDB's observations.
    func addObservation<Reducer: ValueReducer>(
        _ observation: ValueObservation<Reducer>,
        scheduling scheduler: some ValueObservationScheduler,
        onChange: @escaping @Sendable (Reducer.Value) -> Void
    ) -> AnyDatabaseCancellable {
        // An observation that has failed is not restarted.
        let failure = Signal()
        let region = ObservedRegion()
        let traced = observation.handleEvents(
            willTrackRegion: { region.change(to: $0) },
            didFail: { _ in failure.raise() }
        )
        let persistent = PersistentObservation(
            onWriter: observation.requiresWriteAccess,
            notifiesAgain: true,
            region: region,
            fail: { _ = observation.failing(with: $0, scheduler, onChange) }
        ) { [traced, weak observatory] persistent, queue, isFirst in
            var traced = traced
            // GRDB would forbid writes with two more statements a fetch. It begins the first fetch of an observation that may write with
            // `BEGIN IMMEDIATE`, which would lock attached databases.
            if observatory?.isReadOnly(queue) == true { traced.requiresWriteAccess = true }
            func start(_ scheduler: some ValueObservationScheduler) -> AnyDatabaseCancellable {
                // When the observation is restarted, no caller waits for a value, and the thread is not the scheduler's.
                isFirst
                    ? queue._add(observation: traced, scheduling: scheduler, onChange: onChange)
                    : queue._add(observation: traced, scheduling: Later(base: scheduler), onChange: onChange)
            }
            guard persistent.isOnWriter, let observatory else { return start(scheduler) }
            return start(observatory.restartingAfterAbort(persistent, scheduler))
        }
        failure.onRaise { [weak observatory, weak persistent] in
            if let persistent { observatory?.end(persistent) }
        }
        do {
            try checkProcess()
            try observatory.start(persistent)
        } catch {
            let cancellable = observation.failing(with: error, scheduler, onChange)
            return AnyDatabaseCancellable { [self] in withExtendedLifetime(self) { cancellable.cancel() } }
        }
        return AnyDatabaseCancellable { [self] in
            withExtendedLifetime(self) { observatory.end(persistent) }
        }
    }
}

/// A signal that calls a closure when it is raised first.
private final class Signal: Sendable {
    private let body = Mutex<(@Sendable () -> Void)?>(nil)

    func raise() {
        let body = self.body.withLock { body in
            defer { body = nil }
            return body
        }
        body?()
    }

    func onRaise(_ body: @escaping @Sendable () -> Void) { self.body.withLock { $0 = body } }
}

/// Calls a closure with the changes of a buffer, on a queue, one call at a time.
final class CallbackCalls: Sendable {
    private let buffer: ChangeBuffer
    private let queue: DispatchQueue
    /// Whether the closure runs on the thread that delivers changes, when there is one.
    private let isOnFeed: Bool
    private let onChange: @Sendable (DatabaseChange) -> Void
    private let isScheduled = Atomic(false)
    private let running = NSRecursiveLock()

    init(buffer: ChangeBuffer, queue: DispatchQueue?, onChange: @escaping @Sendable (DatabaseChange) -> Void) {
        self.buffer = buffer
        // A queue of its own: on a global queue, closures that block would take the threads of tasks and of other closures.
        self.queue = queue ?? DispatchQueue(label: "roundtable.changes")
        isOnFeed = queue == nil
        self.onChange = onChange
    }

    func schedule() {
        guard !isScheduled.exchange(true, ordering: .sequentiallyConsistent) else { return }
        if isOnFeed {
            ChangesExecutor.runSoon(otherwiseOn: queue) { self.callAll() }
        } else {
            queue.async { self.callAll() }
        }
    }

    private func callAll() {
        // On the feed, its threads and the queue may get here at the same time.
        running.withLock {
            isScheduled.store(false, ordering: .sequentiallyConsistent)
            // Changes that arrive meanwhile are scheduled again, so that other work can run on the queue.
            for _ in 0..<buffer.count {
                if let change = buffer.takeFirst() { onChange(change) }
            }
        }
        if buffer.count > 0 { schedule() }
    }
}

/// The commits that may have changed a region of a ``SharedDatabase``. See ``SharedDatabase/changes(in:)``.
public struct DatabaseChanges: AsyncSequence, Sendable {
    public typealias Element = DatabaseChange

    /// Ends the consumer when the sequence and all its iterators are released.
    fileprivate final class Source: Sendable {
        let buffer: Result<ChangeBuffer, any Error>
        private let database: SharedDatabase

        init(_ buffer: Result<ChangeBuffer, any Error>, _ database: SharedDatabase) {
            self.buffer = buffer
            self.database = database
        }

        deinit { try? buffer.get().finish(dropping: true) }
    }

    private let source: Source

    init(_ buffer: Result<ChangeBuffer, any Error>, database: SharedDatabase) {
        source = Source(buffer, database)
    }

    public func makeAsyncIterator() -> Iterator { Iterator(source: source) }

    public struct Iterator: AsyncIteratorProtocol {
        private let source: Source

        fileprivate init(source: Source) { self.source = source }

        /// The next change; nil when the task is cancelled, or the database closed.
        public mutating func next() async throws -> DatabaseChange? {
            try await source.buffer.get().next()
        }
    }
}

extension SharedDatabase {
    /// Calls a closure once, when the database is closed, unless the returned value is cancelled or released before.
    ///
    /// - throws: `SQLITE_MISUSE` when it is closed already.
    package func onClose(_ end: @escaping @Sendable () -> Void) throws -> AnyDatabaseCancellable {
        guard let number = observatory.state.withLock({ $0.addFollower(end) }) else {
            throw files.failure ?? DatabaseError.closed(path) as any Error
        }
        return AnyDatabaseCancellable { [weak observatory] in
            _ = observatory?.state.withLock { $0.removeFollower(number) }
        }
    }
}
