import Foundation
import GRDB
import Synchronization

// MARK: - Pausing

extension Observatory {
    /// Pauses delivery. Changes accumulate until `resume()`. Connections stay open.
    func pause() {
        transitions.withLock {
            let (feed, bridges) = state.withLock { $0.pause() }
            feed?.pause()
            for bridge in bridges { bridge.pause() }
        }
    }

    /// Resumes delivery, and delivers the changes since `pause()` as one change.
    func resume() {
        transitions.withLock {
            let (feed, bridges) = state.withLock { $0.resume() }
            for bridge in bridges { bridge.resume() }
            feed?.resume()
        }
    }
}

// MARK: - Parking

extension Observatory: Parkable {
    var use: HeldConnection.Use { .observation }

    /// Ends observing until `unpark`. Later, a fetch that uses other connections would be turned away, and its observation would report
    /// that.
    func willPark() {
        let parked = transitions.withLock {
            let running = state.withLock { $0.running }
            running?.connection.endWaiting()
            let position = running?.feed.stop(waiting: false)
            let parked = state.withLock { $0.park(at: position) }
            isRunning.store(false, ordering: .sequentiallyConsistent)
            return parked
        }
        parked.writerBridge?.pause()
        guard let connection = parked.connection else { return }
        for observation in parked.observations { observation.park() }
        parked.valueBridge?.forget()
        state.withLock { $0.lend(connection) }
    }

    func park() -> Bool {
        close(state.withLock { $0.takeReturned() })
        return true
    }

    /// An observation may be being started on the writer connection.
    var needsLaterOnes: Bool { state.withLock { $0.borrowers > 0 } }

    /// Begins to close connections that were given up, and on which no observation is being started.
    func close(_ returned: [ObservationConnection]) {
        if returned.isEmpty { return }
        for connection in returned { connection.close(with: closings) }
        state.withLock { $0.didBeginClosing(returned.count) }
    }

    /// - returns: the connections that were given up, and do not close yet.
    func stepParking() -> [HeldConnection] {
        Array(repeating: HeldConnection(use: .observation), count: state.withLock { $0.unclosed })
    }

    /// Interrupts the statements on the connections that were given up.
    func interruptParking() {
        // A lent connection does not begin to close while the lock is held.
        state.withLock { state in
            for connection in state.lent { connection.queue.interrupt() }
        }
    }

    /// Allows observing again. On return, missed changes have been delivered, unless the connection cannot be opened now.
    func unpark() {
        // Observing begins before this participant commits, so that its own commits are not reported as missed.
        if state.withLock({ $0.unpark() }) { _ = try? running() }
    }

    func didUnpark() {
        if state.withLock({ $0.beginRestart() }) { restartObservations() }
    }
}
