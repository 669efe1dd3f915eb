import Dispatch
import GRDB
import Synchronization

/// Hands changes to the GRDB observers of one connection. Changes that come while the connection is busy are handed over
/// together: a burst of commits costs few fetches.
final class ObserverBridge: Sendable {
    private struct State {
        var tables: Change.Tables?
        var isScheduled = false
        var failures = 0
    }

    private let state = Mutex(State())
    private let schedule: @Sendable (_ body: @escaping @Sendable (Database) -> Void) -> Void
    private let notify: @Sendable (Database, Change.Tables) throws -> Void

    /// - Parameters:
    ///   - schedule: runs a closure on the connection's queue, soon.
    ///   - notify: tells the connection's observers. When it throws, it is tried again later.
    init(
        schedule: @escaping @Sendable (_ body: @escaping @Sendable (Database) -> Void) -> Void,
        notify: @escaping @Sendable (Database, Change.Tables) throws -> Void
    ) {
        self.schedule = schedule
        self.notify = notify
    }

    func add(_ tables: Change.Tables) {
        let mustSchedule = state.withLock { state in
            state.tables = state.tables?.union(tables) ?? tables
            defer { state.isScheduled = true }
            return !state.isScheduled
        }
        if mustSchedule { schedule { [self] db in deliver(db) } }
    }

    private func deliver(_ db: Database) {
        let tables = state.withLock { state in
            defer {
                state.tables = nil
                state.isScheduled = false
            }
            return state.tables
        }
        guard let tables else { return }
        do {
            try notify(db, tables)
            state.withLock { $0.failures = 0 }
        } catch {
            // Closed: there is nobody to tell.
            if db.sqliteConnection == nil { return }
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
