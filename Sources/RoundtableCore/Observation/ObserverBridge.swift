import Dispatch
import GRDB
import RoundtableKernel
import Synchronization

/// Delivers changes to the GRDB observers of one connection. Changes that arrive while the connection is busy are delivered together, so
/// a burst of commits costs few fetches.
final class ObserverBridge: Sendable {
    /// Notifies the connection's observers. Its second argument returns the changed tables; nil when there are none. If it throws, the
    /// notification is retried later.
    typealias Notify = (Database, () -> DatabaseChange.Tables?) throws -> Void

    private struct State {
        var tables: DatabaseChange.Tables?
        var isScheduled = false
        var isPaused = false
        /// The number of the connection. It changes when the connection is given up.
        var generation = 0
        var backoff = Backoff(.milliseconds(2), upTo: .seconds(1))
    }

    private let state = Mutex(State())
    private let schedule: @Sendable (_ body: @escaping @Sendable (Database, Notify) -> Void) -> Bool

    private let didNotify: @Sendable ((any Error)?) -> Void

    /// - Parameters:
    ///   - schedule: runs a closure on the connection's queue, soon; false when there is no connection, and hence no observer.
    ///   - didNotify: called after each attempt to notify observers, with its error.
    init(
        schedule: @escaping @Sendable (_ body: @escaping @Sendable (Database, Notify) -> Void) -> Bool,
        didNotify: @escaping @Sendable ((any Error)?) -> Void
    ) {
        self.schedule = schedule
        self.didNotify = didNotify
    }

    func add(_ tables: DatabaseChange.Tables) {
        let generation: Int? = state.withLock { state in
            state.tables = state.tables?.union(tables) ?? tables
            if state.isPaused || state.isScheduled { return nil }
            state.isScheduled = true
            return state.generation
        }
        if let generation { scheduleDelivery(generation) }
    }

    /// Pauses delivery. Changes accumulate until `resume()`.
    func pause() { state.withLock { $0.isPaused = true } }

    /// Resumes delivery, and schedules the changes that have accumulated.
    func resume() {
        let generation: Int? = state.withLock { state in
            state.isPaused = false
            // An earlier delivery may have been lost with its connection. A second one does no harm.
            state.isScheduled = state.tables != nil
            return state.isScheduled ? state.generation : nil
        }
        if let generation { scheduleDelivery(generation) }
    }

    /// Discards pending changes, because the connection is given up and has no observers any more.
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
        // The connection is closed and has no observers. Pending changes may belong to another connection by now.
        if db.sqliteConnection == nil { return }
        var tables: DatabaseChange.Tables?
        do {
            try notify(db) {
                tables = take(generation)
                return tables
            }
            if tables != nil {
                state.withLock { $0.backoff.succeeded() }
                didNotify(nil)
            }
        } catch {
            // SQLite was busy, or one observer has vetoed the transaction. The other observers have not been notified.
            guard let tables = tables ?? take(generation) else { return }
            didNotify(error)
            let pause = state.withLock { $0.backoff.next() }
            DispatchQueue.global().asyncAfter(deadline: .now() + .nanoseconds(Int(pause))) { [weak self] in
                self?.add(tables)
            }
        }
    }

    /// Ends the scheduled delivery.
    ///
    /// - returns: the tables to report; nil when there are none, deliveries are paused, or the connection was given up.
    private func take(_ generation: Int) -> DatabaseChange.Tables? {
        state.withLock { state in
            guard state.generation == generation else { return nil }
            state.isScheduled = false
            if state.isPaused { return nil }
            defer { state.tables = nil }
            return state.tables
        }
    }
}
