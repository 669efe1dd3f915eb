import Dispatch
import GRDB

extension Observatory {
    // MARK: Pausing

    /// Pauses delivery. Changes accumulate until `resume()`. Connections stay open.
    func pause() {
        isPaused.store(true, ordering: .sequentiallyConsistent)
        feed?.pause()
        forEachBridge { $0.pause() }
    }

    /// Resumes delivery, and delivers the changes since `pause()` as one change.
    func resume() {
        isPaused.store(false, ordering: .sequentiallyConsistent)
        forEachBridge { $0.resume() }
        feed?.resume()
    }

    private var feed: ChangeFeed? {
        state.withLock { state in
            if case .running(_, let feed) = state { return feed }
            return nil
        }
    }

    private func forEachBridge(_ body: (ObserverBridge) -> Void) {
        if let bridge = valueBridge.withLock({ $0 }) { body(bridge) }
        if let bridge = writerBridge.withLock({ $0 }) { body(bridge) }
    }

    // MARK: Parking

    /// Ends observing until `unpark`, and closes the connection when no access runs on it.
    func park() {
        let running: (connection: ObservationConnection, feed: ChangeFeed)? = state.withLock { state in
            switch state {
            case .running(let connection, let feed):
                connection.endWaiting()
                state = .parked(feed.stop(waiting: false))
                return (connection, feed)
            case .idle: state = .parked(nil)
            case .resting(let position): state = .parked(position)
            case .parked, .closed: break
            }
            return nil
        }
        writerBridge.withLock { $0 }?.pause()
        guard let running else { return }
        isRunning.store(false, ordering: .sequentiallyConsistent)
        connection.withLock { $0 = nil }
        // The observations are parked before anything is interrupted, because they would report an error otherwise.
        for observation in observations.withLock({ Array($0.values) }) { observation.park() }
        valueBridge.withLock { $0 }?.forget()
        leaving.withLock { leaving in
            leaving.lent.append(running.connection)
        }
        if isNobodyStarting { closeReturned() }
    }

    /// Whether no observation is being started now.
    var isNobodyStarting: Bool { borrowers.withLock { $0 == 0 } }

    /// The connections that are being closed.
    struct Leaving {
        /// The connections on which observations may still be being started.
        var lent: [ObservationConnection] = []
        var closing: [ConnectionClosing] = []
    }

    /// Begins to close the lent connections. Call it when no observation is being started.
    func closeReturned() {
        leaving.withLock { leaving in
            leaving.closing += leaving.lent.map { $0.closing() }
            leaving.lent = []
        }
    }

    /// - returns: the connections that stay open, and why.
    func stepParking() -> [HeldConnection] {
        let open = leaving.withLock { $0.closing }.filter { $0.step() != .closed }
        let lent = leaving.withLock { leaving in
            leaving.closing.removeAll { $0.outcome == .closed }
            return leaving.lent.count
        }
        return open.map { HeldConnection(use: .observation, isByStatement: $0.outcome == .isInUse) }
            + Array(repeating: HeldConnection(use: .observation), count: lent)
    }

    /// Interrupts the statements on the connections that are being closed.
    func interruptParking() {
        leaving.withLock { leaving in
            for connection in leaving.lent { connection.queue.interrupt() }
            for closing in leaving.closing { closing.interrupt() }
        }
    }

    /// Allows observing again. On return, missed changes have been delivered, unless the connection cannot be opened now.
    ///
    /// - returns: whether `restartObservations` must be called.
    func unpark() -> Bool {
        let isNeeded = state.withLock { state in
            guard case .parked(let position) = state else { return false }
            state = position == nil ? .idle : .resting(position)
            return position != nil || !observations.withLock { $0.isEmpty }
                || isWriterWaiting.load(ordering: .sequentiallyConsistent)
        }
        // Observing begins before this participant commits, so that its own commits are not reported as missed.
        if isNeeded { _ = try? running() }
        return isNeeded
    }

    /// Restarts the observations. Retries while no file descriptors or threads are available.
    func restartObservations() {
        do {
            try running()
            if writerBridge.withLock({ $0 != nil }) { _ = try writer.openedQueue() }
            // The order on the writer's queue matters: observers of missed changes are notified first, and the other observations
            // start after that.
            for observation in observations(notifyingAgain: false) { try start(observation, isLate: true) }
            if !isPaused.load(ordering: .sequentiallyConsistent) { writerBridge.withLock { $0 }?.resume() }
            if isWriterWaiting.exchange(false, ordering: .sequentiallyConsistent) {
                observeOnWriterEventually(isLate: true)
            }
            for observation in observations(notifyingAgain: true) { try start(observation, isLate: true) }
        } catch let error as DatabaseError where error.isSuspension || error.resultCode == .SQLITE_MISUSE {
            // The database was parked again, or closed.
        } catch {
            DispatchQueue.global().asyncAfter(deadline: .now() + .seconds(1)) { [weak self] in
                self?.restartObservations()
            }
        }
    }

    private func observations(notifyingAgain: Bool) -> [PersistentObservation] {
        observations.withLock { $0.values.filter { $0.notifiesAgain == notifyingAgain } }
    }
}
