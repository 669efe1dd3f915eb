import GRDB
import Synchronization

/// An observation of the user's, which is started again on the connection that takes the place of one that was closed.
final class PersistentObservation: Sendable {
    private enum State {
        /// Not observing: not started yet, or there is no connection.
        case idle
        case starting
        case running(AnyDatabaseCancellable)
        /// Cancelled by the user, or failed.
        case ended
    }

    /// Whether it observes on the writer connection.
    let isOnWriter: Bool
    /// Whether it tells what it observes when it is started again, so that what was missed is no news.
    let tellsAnew: Bool
    let region: ObservedRegion
    private let begin: @Sendable (DatabaseQueue, _ isFirst: Bool) -> AnyDatabaseCancellable
    private let state = Mutex(State.idle)
    private let hasStarted = Atomic(false)

    /// - parameter begin: starts it on a connection; `isFirst`: where the user does, and not later, on another thread.
    init(
        onWriter: Bool,
        tellsAnew: Bool,
        region: ObservedRegion = ObservedRegion(),
        _ begin: @escaping @Sendable (DatabaseQueue, _ isFirst: Bool) -> AnyDatabaseCancellable
    ) {
        isOnWriter = onWriter
        self.tellsAnew = tellsAnew
        self.region = region
        self.begin = begin
    }

    var hasEnded: Bool {
        state.withLock { state in
            if case .ended = state { return true }
            return false
        }
    }

    /// Starts it, unless it runs.
    func start(on queue: DatabaseQueue, isLate: Bool) {
        let mayStart = state.withLock { state in
            guard case .idle = state else { return false }
            state = .starting
            return true
        }
        guard mayStart else { return }
        // Not under the lock: it may tell its first value at once, and the user end it there.
        let cancellable = begin(queue, !isLate && !hasStarted.exchange(true, ordering: .relaxed))
        let isStale = state.withLock { state in
            guard case .starting = state else { return true }
            state = .running(cancellable)
            return false
        }
        if isStale { cancellable.cancel() }
    }

    /// Its connection is about to be closed. It tells nothing more, no error either, until it is started again.
    func park() { stop(.idle) }

    func end() { stop(.ended) }

    private func stop(_ next: State) {
        let running: AnyDatabaseCancellable? = state.withLock { state in
            if case .ended = state { return nil }
            defer { state = next }
            if case .running(let cancellable) = state { return cancellable }
            return nil
        }
        running?.cancel()
    }
}

/// Where an observation looks, as far as it has said.
final class ObservedRegion: Sendable {
    private struct State {
        var region: DatabaseRegion?
        var hadTables = true
        /// What was observed until its tables were dropped. GRDB leaves missing tables out when an observation starts again, so the observation
        /// does not notice that they are back.
        var lost: DatabaseRegion?
    }
    private let state = Mutex(State())

    func change(to region: DatabaseRegion) { state.withLock { $0.region = region } }

    /// Asked whenever anything may have changed.
    ///
    /// - parameter tables: those of the database.
    /// - returns: whether the observation is to start again: the last of its tables was dropped since this was asked before, or one that
    ///   was dropped is back.
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
