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
    private let begin: @Sendable (DatabaseQueue, _ isFirst: Bool) -> AnyDatabaseCancellable
    private let state = Mutex(State.idle)
    private let hasStarted = Atomic(false)

    /// - parameter begin: starts it on a connection; `isFirst`: where the user does, and not later, on another thread.
    init(
        onWriter: Bool,
        tellsAnew: Bool,
        _ begin: @escaping @Sendable (DatabaseQueue, _ isFirst: Bool) -> AnyDatabaseCancellable
    ) {
        isOnWriter = onWriter
        self.tellsAnew = tellsAnew
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
