import Dispatch
import GRDB

extension Observatory {
    // MARK: Pausing

    /// From now on, nobody is told of changes. Connections stay open.
    func pause() {
        isPaused.store(true, ordering: .sequentiallyConsistent)
        feed?.pause()
        forEachBridge { $0.pause() }
    }

    /// Tells, as one change, what was committed since.
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

    /// Ends observing until `unpark`, and closes the connection when nothing runs on it.
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
        // Before anything is interrupted: they would tell an error.
        for observation in observations.withLock({ Array($0.values) }) { observation.park() }
        valueBridge.withLock { $0 }?.forget()
        leaving.withLock { leaving in
            leaving.lent.append(running.connection)
        }
        if isNobodyStarting { closeReturned() }
    }

    /// Whether nobody starts an observation now.
    var isNobodyStarting: Bool { borrowers.withLock { $0 == 0 } }

    /// Connections that are given up.
    struct Leaving {
        /// Somebody may be starting an observation on them.
        var lent: [ObservationConnection] = []
        var closing: [ConnectionClosing] = []
    }

    /// When nobody starts an observation.
    func closeReturned() {
        leaving.withLock { leaving in
            leaving.closing += leaving.lent.map { $0.closing() }
            leaving.lent = []
        }
    }

    /// - returns: what keeps connections open.
    func stepParking() -> [HeldConnection] {
        let open = leaving.withLock { $0.closing }.filter { $0.step() != .closed }
        let lent = leaving.withLock { leaving in
            leaving.closing.removeAll { $0.outcome == .closed }
            return leaving.lent.count
        }
        return open.map { HeldConnection(use: .observation, isByStatement: $0.outcome == .isInUse) }
            + Array(repeating: HeldConnection(use: .observation), count: lent)
    }

    /// What runs on the connections that are to be closed.
    func interruptParking() {
        leaving.withLock { leaving in
            for connection in leaving.lent { connection.queue.interrupt() }
            for closing in leaving.closing { closing.interrupt() }
        }
    }

    /// Somebody may observe again. What was missed has been told when this returns, unless the connection cannot be opened now.
    ///
    /// - returns: whether `goOn` is to be called.
    func unpark() -> Bool {
        let isNeeded = state.withLock { state in
            guard case .parked(let position) = state else { return false }
            state = position == nil ? .idle : .resting(position)
            return position != nil || !observations.withLock { $0.isEmpty }
                || isWriterWaiting.load(ordering: .sequentiallyConsistent)
        }
        // Before this participant's own commits, which are no news.
        if isNeeded { _ = try? running() }
        return isNeeded
    }

    /// Starts observations again. Tried again while there are no descriptors or threads to be had.
    func goOn() {
        do {
            try running()
            if writerBridge.withLock({ $0 != nil }) { _ = try writer.openedQueue() }
            // On its queue, in this order: those who want to know what was missed are told, and the others begin after that.
            for observation in observations(tellingAnew: false) { try start(observation, isLate: true) }
            if !isPaused.load(ordering: .sequentiallyConsistent) { writerBridge.withLock { $0 }?.resume() }
            if isWriterWaiting.exchange(false, ordering: .sequentiallyConsistent) {
                observeOnWriterEventually(isLate: true)
            }
            for observation in observations(tellingAnew: true) { try start(observation, isLate: true) }
        } catch let error as DatabaseError where error.isSuspension || error.resultCode == .SQLITE_MISUSE {
            // Parked again, or closed.
        } catch {
            DispatchQueue.global().asyncAfter(deadline: .now() + .seconds(1)) { [weak self] in self?.goOn() }
        }
    }

    private func observations(tellingAnew: Bool) -> [PersistentObservation] {
        observations.withLock { $0.values.filter { $0.tellsAnew == tellingAnew } }
    }
}
