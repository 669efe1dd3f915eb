import Dispatch
import GRDB
import Synchronization

/// Hands changes to the GRDB observers of one connection. Changes that come while the connection is busy are handed over
/// together: a burst of commits costs few fetches.
final class ObserverBridge: Sendable {
    /// Tells the connection's observers. When it throws, it is tried again later.
    typealias Notify = (Database, Change.Tables) throws -> Void

    private struct State {
        var tables: Change.Tables?
        var isScheduled = false
        var isPaused = false
        /// Another connection has another number.
        var generation = 0
        var failures = 0
    }

    private let state = Mutex(State())
    private let schedule: @Sendable (_ body: @escaping @Sendable (Database, Notify) -> Void) -> Bool

    /// - parameter schedule: runs a closure on the connection's queue, soon; false when there is no connection, and nobody to tell.
    init(schedule: @escaping @Sendable (_ body: @escaping @Sendable (Database, Notify) -> Void) -> Bool) {
        self.schedule = schedule
    }

    func add(_ tables: Change.Tables) {
        let generation: Int? = state.withLock { state in
            state.tables = state.tables?.union(tables) ?? tables
            if state.isPaused || state.isScheduled { return nil }
            state.isScheduled = true
            return state.generation
        }
        if let generation { scheduleDelivery(generation) }
    }

    /// From now on, nobody is told.
    func pause() { state.withLock { $0.isPaused = true } }

    /// Those who observe are told, at once, of what has come since.
    func resume() {
        let generation: Int? = state.withLock { state in
            state.isPaused = false
            // What was scheduled before may have gone with its connection; twice does no harm.
            state.isScheduled = state.tables != nil
            return state.isScheduled ? state.generation : nil
        }
        if let generation { scheduleDelivery(generation) }
    }

    /// There is nobody to tell any more of what has come until now: the connection goes.
    func forget() {
        state.withLock { state in
            state.tables = nil
            state.isScheduled = false
            state.generation += 1
        }
    }

    private func scheduleDelivery(_ generation: Int) {
        if !schedule({ [self] db, notify in deliver(db, notify, generation) }) { forget() }
    }

    private func deliver(_ db: Database, _ notify: Notify, _ generation: Int) {
        // Closed: there is nobody to tell, and another connection may be told by now.
        if db.sqliteConnection == nil { return }
        let tables: Change.Tables? = state.withLock { state in
            guard state.generation == generation else { return nil }
            state.isScheduled = false
            if state.isPaused { return nil }
            defer { state.tables = nil }
            return state.tables
        }
        guard let tables else { return }
        do {
            try notify(db, tables)
            state.withLock { $0.failures = 0 }
        } catch {
            // SQLite was busy, or one observer has vetoed what is news to others.
            let failures = state.withLock { state in
                state.failures += 1
                return state.failures
            }
            let pause = DispatchTimeInterval.milliseconds(min(1000, 1 << min(failures, 10)))
            DispatchQueue.global().asyncAfter(deadline: .now() + pause) { [weak self] in self?.add(tables) }
        }
    }
}
