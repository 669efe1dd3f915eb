import Dispatch
import Foundation
import GRDB
import RoundtableKernel
import Synchronization

/// GRDB's observers: observations on the observation connection and on the writer connection, and the bridges that notify them.
extension Observatory {
    // MARK: Observations

    /// Starts an observation. If the database is suspended, the observation starts when it is resumed.
    ///
    /// - parameter isLate: whether the observation is restarted. Its scheduler's thread is then not the present one.
    func start(_ observation: PersistentObservation, isLate: Bool = false) throws {
        state.withLock { $0.add(observation) }
        do {
            try withConnection { connection in
                if observation.isOnWriter { observeOnWriterEventually() }
                if observation.isOnWriter {
                    let queue = try writer.openedQueue()
                    // GRDB fetches the first value without looking whether another connection has changed the schema.
                    queue.asyncWriteWithoutTransaction { [weak writer] db in try? writer?.detectOtherCommits(db) }
                    if observation.notifiesAgain {
                        startInsideGate(observation, on: queue, isLate: isLate)
                    } else {
                        observation.start(on: queue, isLate: isLate)
                    }
                } else {
                    connection.willStartObservation()
                    observation.start(on: connection.queue, isLate: isLate)
                    connection.didStartObservation()
                }
            }
        } catch let error as DatabaseError where error.isSuspension {
            // The observation starts after `unpark`.
        } catch is Refusal {
            // The gate was closed. Possibly nothing will be parked, so `unpark` may never be called.
            DispatchQueue.global().asyncAfter(deadline: .now() + .seconds(1)) { [weak self] in
                self?.restartObservations()
            }
        } catch {
            if !isLate { end(observation) }
            throw error
        }
        if observation.hasEnded { end(observation) }
    }

    /// Whether SQLite forbids what a fetch on this queue must not write, so that GRDB need not do so.
    func isReadOnly(_ queue: DatabaseQueue) -> Bool {
        state.withLock { $0.connection.map { $0.queue === queue && !$0.hasAttachedDatabases } ?? false }
    }

    func end(_ observation: PersistentObservation) {
        _ = state.withLock { $0.remove(observation) }
        observation.end()
    }

    /// Restarts the observations. Retries while no file descriptors or threads are available.
    ///
    /// - parameter backoff: how long to wait before the next attempt if this one fails.
    func restartObservations(backoff: Backoff = .reopening) {
        do {
            try running()
            if state.withLock({ $0.writerBridge != nil }) { _ = try writer.openedQueue() }
            // The order on the writer's queue matters: observers of missed changes are notified first, and the other observations
            // start after that.
            for observation in observations(notifyingAgain: false) { try start(observation, isLate: true) }
            state.withLock { $0.isPaused ? nil : $0.writerBridge }?.resume()
            if state.withLock({ $0.endAwaitingWriter() }) { observeOnWriterEventually(isLate: true) }
            for observation in observations(notifyingAgain: true) { try start(observation, isLate: true) }
            trouble.succeeded(.opening)
        } catch let error as DatabaseError where error.isSuspension || error.resultCode == .SQLITE_MISUSE {
            // The database was parked again, or closed.
        } catch {
            trouble.failed(.opening, error)
            backoff.retry { [weak self] in self?.restartObservations(backoff: $0) }
        }
    }

    private func observations(notifyingAgain: Bool) -> [PersistentObservation] {
        state.withLock { Array($0.observations.values) }.filter { $0.notifiesAgain == notifyingAgain }
    }

    /// Lends the observation connection to `body`, which starts an observation on it.
    private func withConnection<T>(_ body: (ObservationConnection) throws -> T) throws -> T {
        // The connection is not closed meanwhile, because GRDB crashes when an observation starts on a closed connection.
        state.withLock { $0.borrow() }
        defer { close(state.withLock { $0.giveBack() }) }
        let (connection, feed) = try running()
        bridge(\.valueBridge, .notifying(onWriter: false), feed) { [weak self] body in
            guard let connection = self?.state.withLock({ $0.connection }) else { return false }
            connection.queue.asyncWriteWithoutTransaction { [weak self, weak connection] db in
                guard let connection else { return }
                body(db) { db, changed in
                    guard let tables = try connection.fetching.notify(db, changed) else { return }
                    self?.didNotify(db, tables, onWriter: false)
                }
            }
            return true
        }
        return try body(connection)
    }

    // MARK: The writer connection

    /// Notifies the observers of the writer connection too, from now on.
    func observeOnWriter() throws {
        if state.withLock({ $0.writerBridge != nil && !$0.isClosed }) { return }
        let step = ObservationStep.notifying(onWriter: true)
        bridge(\.writerBridge, step, try running().feed) { [weak self, weak writer] body in
            let failed: @Sendable (any Error) -> Void = { [weak self] in self?.trouble.failed(step, $0) }
            writer?.soon(failed: failed) { [weak self, weak writer] db in
                guard let writer else { return }
                body(db) { db, changed in
                    guard let self else { return }
                    try self.insideGate {
                        guard let tables = changed() else { return }
                        try writer.notify(db, tables)
                        self.didNotify(db, tables, onWriter: true)
                    }
                }
            }
            return writer != nil
        }
    }

    /// Calls `observeOnWriter`, and retries if it fails, for example because the process has no descriptors or threads left.
    ///
    /// - Parameters:
    ///   - isLate: whether observers may have missed changes. They are then notified that anything may have changed.
    ///   - backoff: how long to wait before the next attempt if this one fails.
    func observeOnWriterEventually(isLate: Bool = false, backoff: Backoff = .reopening) {
        do {
            try observeOnWriter()
            trouble.succeeded(.following)
            if isLate { state.withLock { $0.writerBridge }?.add(.fullDatabase) }
        } catch DatabaseError.SQLITE_MISUSE {
            // The database was closed.
        } catch let error as DatabaseError where error.isSuspension {
            state.withLock { $0.awaitWriter() }
        } catch {
            trouble.failed(.following, error)
            backoff.retry { [weak self] in self?.observeOnWriterEventually(isLate: true, backoff: $0) }
        }
    }

    // MARK: Notifying

    /// Notifies the observers of the writer connection of a commit of this participant by another connection.
    func notifyWriter(_ tables: DatabaseChange.Tables) { state.withLock { $0.writerBridge }?.add(tables) }

    /// Makes a bridge if there is none yet.
    private func bridge(
        _ side: any WritableKeyPath<State, ObserverBridge?> & Sendable,
        _ step: ObservationStep,
        _ feed: ChangeFeed,
        schedule: @escaping @Sendable (@escaping @Sendable (Database, ObserverBridge.Notify) -> Void) -> Bool
    ) {
        if state.withLock({ $0[keyPath: side] != nil }) { return }
        transitions.withLock {
            let (isThere, isPaused) = state.withLock { ($0[keyPath: side] != nil, $0.isPaused) }
            if isThere { return }
            let bridge = ObserverBridge(schedule: schedule) { [trouble] error in
                if let error { trouble.failed(step, error) } else { trouble.succeeded(step) }
            }
            if isPaused { bridge.pause() }
            // A caller that finds a bridge relies on its subscription, so the bridge subscribes before it is stored.
            _ = feed.subscribe { changes in
                // Own commits reach the observers in another way: through GRDB, or through `didCommit`.
                if let tables = DatabaseChange.tables(of: changes.filter { !$0.isOwn }) { bridge.add(tables) }
            }
            state.withLock { $0[keyPath: side] = bridge }
        }
    }

    /// Restarts observations whose tables were dropped or are back. GRDB notifies observers of a change of the schema as of a change of
    /// all tables that exist. An observation whose tables have all been dropped is not notified, so it starts again here: it fetches, and
    /// fails if it needs them. It also starts again when one of them is back. This runs on the queue of the connection that was notified.
    private func didNotify(_ db: Database, _ tables: DatabaseChange.Tables, onWriter: Bool) {
        guard tables == .fullDatabase else { return }
        let observations = observations(notifyingAgain: true).filter { $0.isOnWriter == onWriter }
        if observations.isEmpty { return }
        // If the tables cannot be read now, they are read after the next change of the schema.
        let sql = "SELECT name FROM sqlite_master WHERE type = 'table'"
        guard let names = try? String.fetchAll(db.cachedStatement(sql: sql)) else { return }
        let outdated = observations.filter { $0.region.needsRestart(names) }
        if outdated.isEmpty { return }
        for observation in outdated { observation.park() }
        DispatchQueue.global().async { [weak self] in self?.restartObservations() }
    }
}
