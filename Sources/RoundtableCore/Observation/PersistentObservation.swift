import GRDB
import Synchronization

/// A user's observation, which is restarted on the connection that replaces a closed one.
final class PersistentObservation: Sendable {
    private enum State {
        /// The observation was not started yet, or there is no connection.
        case idle
        case starting
        case running(AnyDatabaseCancellable)
        /// Cancelled by the user, or failed.
        case ended
    }

    /// Whether the observation uses the writer connection.
    let isOnWriter: Bool
    /// Whether the observation delivers its current value when it is restarted, so that missed changes need not be reported.
    let notifiesAgain: Bool
    let region: ObservedRegion
    private let reportFailure: @Sendable (any Error) -> Void
    private let begin: @Sendable (PersistentObservation, DatabaseQueue, _ isFirst: Bool) -> AnyDatabaseCancellable
    private let state = Mutex(State.idle)
    private let hasStarted = Atomic(false)

    /// - Parameters:
    ///   - fail: reports an error to the user.
    ///   - begin: starts the observation, which is its first argument, on a connection. `isFirst` is true for the start by the
    ///     user, and false for a later start on another thread.
    init(
        onWriter: Bool,
        notifiesAgain: Bool,
        region: ObservedRegion = ObservedRegion(),
        fail: @escaping @Sendable (any Error) -> Void,
        _ begin: @escaping @Sendable (PersistentObservation, DatabaseQueue, _ isFirst: Bool) -> AnyDatabaseCancellable
    ) {
        isOnWriter = onWriter
        self.notifiesAgain = notifiesAgain
        self.region = region
        reportFailure = fail
        self.begin = begin
    }

    var hasEnded: Bool {
        state.withLock { state in
            if case .ended = state { return true }
            return false
        }
    }

    /// Starts the observation, unless it runs.
    func start(on queue: DatabaseQueue, isLate: Bool) {
        let mayStart = state.withLock { state in
            guard case .idle = state else { return false }
            state = .starting
            return true
        }
        guard mayStart else { return }
        // The lock is not held, because the observation may deliver its first value immediately, and the user may end the observation
        // there.
        let cancellable = begin(self, queue, !isLate && !hasStarted.exchange(true, ordering: .relaxed))
        let isStale = state.withLock { state in
            guard case .starting = state else { return true }
            state = .running(cancellable)
            return false
        }
        if isStale { cancellable.cancel() }
    }

    /// Stops the observation because its connection is about to be closed. It reports nothing, not even an error, until it is
    /// restarted.
    func park() { stop(.idle) }

    func end() { stop(.ended) }

    /// Ends the observation with an error, unless it has ended.
    func fail(_ error: any Error) {
        if stop(.ended) { reportFailure(error) }
    }

    /// - returns: whether the observation had not ended.
    @discardableResult
    private func stop(_ next: State) -> Bool {
        let (wasActive, running) = state.withLock { state -> (Bool, AnyDatabaseCancellable?) in
            if case .ended = state { return (false, nil) }
            defer { state = next }
            if case .running(let cancellable) = state { return (true, cancellable) }
            return (true, nil)
        }
        running?.cancel()
        return wasActive
    }
}

/// The region that an observation has reported.
final class ObservedRegion: Sendable {
    private struct State {
        var region: DatabaseRegion?
        var hadTables = true
        /// The region that was observed until its tables were dropped. GRDB leaves missing tables out when an observation starts
        /// again, so the observation does not notice that they are back.
        var lost: DatabaseRegion?
    }
    private let state = Mutex(State())

    func change(to region: DatabaseRegion) { state.withLock { $0.region = region } }

    /// Returns whether the observation must be restarted. Call it whenever anything may have changed.
    ///
    /// - parameter tables: the tables of the database.
    /// - returns: true when the last table of the observation was dropped since the previous call, or when a table that was
    ///   dropped exists again.
    func needsRestart(_ tables: [String]) -> Bool {
        func exists(_ region: DatabaseRegion) -> Bool {
            tables.contains { region.isModified(byEventsOfKind: .delete(tableName: $0)) }
        }
        return state.withLock { state in
            if let lost = state.lost, exists(lost) {
                (state.lost, state.hadTables) = (nil, true)
                return true
            }
            guard let region = state.region, !region.isEmpty else { return false }
            let hadTables = state.hadTables
            state.hadTables = exists(region)
            guard hadTables, !state.hadTables else { return false }
            state.lost = region
            return true
        }
    }
}
