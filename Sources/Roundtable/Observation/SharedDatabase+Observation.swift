import Dispatch
import Foundation
import GRDB
import Synchronization

extension SharedDatabase {
    /// The commits that may have changed a region, whoever makes them, in commit order, from now on.
    ///
    /// ```swift
    /// for try await change in db.changes(in: Player.all()) {
    ///     print(change.author ?? "somebody", change.tables)
    /// }
    /// ```
    ///
    /// A change is told when it can be read. A consumer that is slow keeps nobody waiting: when 256 changes wait for it, later
    /// ones are told as one (``Change/Detail-swift.enum/several``). The sequence ends when the task is cancelled, and when the
    /// database is closed. It keeps the database open.
    ///
    /// For one consumer: call it again for another. The first call in a process opens a connection.
    ///
    /// - parameter regions: what to tell of, by table. None: everything.
    /// - throws: (in the loop) `DatabaseError`, when the region cannot be determined or the database be opened.
    public func changes(in regions: any DatabaseRegionConvertible...) -> Changes {
        Changes(Result { try checkedConsumer(of: regions) }, database: self)
    }

    /// Calls a closure with the commits that may have changed a region, whoever makes them, in commit order, from now on.
    ///
    /// - Parameters:
    ///   - regions: what to tell of, by table. None: everything.
    ///   - queue: where the closure runs, one call at a time. While it runs, changes wait, up to 256; later ones are told as one.
    ///     nil: on the thread that learns of commits, which is the soonest; while it runs, this process learns of no others, so it must be quick.
    ///   - onChange: called with each change. It may cancel, and use or close the database.
    /// - returns: what ends the calls when it is cancelled or released. It keeps the database open.
    /// - throws: `DatabaseError`, when the region cannot be determined or the database be opened.
    public func observeChanges(
        in regions: any DatabaseRegionConvertible...,
        on queue: DispatchQueue? = .main,
        onChange: @escaping @Sendable (Change) -> Void
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

    /// What GRDB's observations are added with.
    func addObservation<Reducer: ValueReducer>(
        _ observation: ValueObservation<Reducer>,
        scheduling scheduler: some ValueObservationScheduler,
        onChange: @escaping @Sendable (Reducer.Value) -> Void
    ) -> AnyDatabaseCancellable {
        // One that has failed is not started again.
        let failure = Signal()
        let region = ObservedRegion()
        let traced = observation.handleEvents(
            willTrackRegion: { region.change(to: $0) },
            didFail: { _ in failure.raise() }
        )
        let persistent = PersistentObservation(
            onWriter: observation.requiresWriteAccess,
            tellsAnew: true,
            region: region
        ) { queue, isFirst in
            // Later, nobody waits for a value, and the thread is another.
            isFirst
                ? queue._add(observation: traced, scheduling: scheduler, onChange: onChange)
                : queue._add(observation: traced, scheduling: Later(base: scheduler), onChange: onChange)
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

/// Calls a closure once somebody has raised it.
private final class Signal: Sendable {
    private enum State {
        case idle
        case awaited(@Sendable () -> Void)
        case raised
    }
    private let state = Mutex(State.idle)

    func raise() {
        let last = state.withLock { state in
            defer { state = .raised }
            return state
        }
        if case .awaited(let body) = last { body() }
    }

    func onRaise(_ body: @escaping @Sendable () -> Void) {
        state.withLock { $0 = .awaited(body) }
    }
}

/// Calls a closure with what a buffer holds, on a queue, one call at a time.
private final class CallbackCalls: Sendable {
    private let buffer: ChangeBuffer
    private let queue: DispatchQueue?
    private let onChange: @Sendable (Change) -> Void
    private let isScheduled = Atomic(false)
    private let running = NSRecursiveLock()

    init(buffer: ChangeBuffer, queue: DispatchQueue?, onChange: @escaping @Sendable (Change) -> Void) {
        self.buffer = buffer
        self.queue = queue
        self.onChange = onChange
    }

    func schedule() {
        guard !isScheduled.exchange(true, ordering: .sequentiallyConsistent) else { return }
        if let queue { queue.async { self.callAll() } } else { ChangesExecutor.runSoon { self.callAll() } }
    }

    private func callAll() {
        // On threads of the system, two may come at once.
        running.withLock {
            isScheduled.store(false, ordering: .sequentiallyConsistent)
            // Not until there is none: others want to run on the queue.
            for _ in 0..<buffer.count {
                if let change = buffer.takeFirst() { onChange(change) }
            }
        }
        if buffer.count > 0 { schedule() }
    }
}

/// The commits that may have changed a region of a ``SharedDatabase``. See ``SharedDatabase/changes(in:)``.
public struct Changes: AsyncSequence, Sendable {
    public typealias Element = Change

    /// Ends the consumer when nobody can ask for changes any more.
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
        public mutating func next() async throws -> Change? {
            try await source.buffer.get().next()
        }
    }
}
