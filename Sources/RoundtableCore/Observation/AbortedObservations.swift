import Dispatch
import GRDB
import RoundtableGate
import RoundtableKernel
import Synchronization

/// Value observations on the writer connection may write in their fetches, so the gate treats each fetch as a write: it does not begin
/// while the gate is closed, and it may be aborted.
extension Observatory {
    /// Starts a value observation on the writer connection, with its first fetch inside the gate. If the gate is closed, the observation
    /// starts when the gate opens.
    func startInsideGate(_ observation: PersistentObservation, on queue: DatabaseQueue, isLate: Bool) {
        guard let visit = writer.gate.enter(.write, at: nil, isRunning: true) else { return restartWhenOpen() }
        observation.start(on: queue, isLate: isLate)
        // The first fetch runs on the queue before this.
        queue.asyncWriteWithoutTransaction { [writer] _ in writer.endFetch(visit) }
    }

    /// Runs `body`, which notifies the observers of the writer connection, inside the gate.
    ///
    /// - throws: `DatabaseError.suspended` when the gate is closed.
    func insideGate(_ body: () throws -> Void) throws {
        guard let visit = writer.gate.enter(.write, at: nil, isRunning: true) else {
            throw DatabaseError.suspended(writer.path)
        }
        defer { writer.endFetch(visit) }
        try body()
    }

    /// Calls `restartObservations` when the gate is open.
    private func restartWhenOpen() {
        let gate = writer.gate
        let waiter = gate.onChange { [weak self] in self?.restartWhenOpen() }
        // Otherwise the waiter was called already.
        guard !gate.isClosed, gate.cancel(waiter) else { return }
        DispatchQueue.global().async { [weak self] in self?.restartObservations() }
    }

    /// Returns a scheduler for a start of an observation on the writer connection.
    ///
    /// GRDB reports the error of an aborted fetch and ends the observation. This scheduler stops the observation before that, without a
    /// report, and the observation is restarted when the gate is open. It cannot tell errors from values, so it also discards the first
    /// value after an abort. The restarted observation fetches that value again.
    func restartingAfterAbort<Base: ValueObservationScheduler>(
        _ observation: PersistentObservation,
        _ base: Base
    ) -> RestartingScheduler<Base> {
        let gate = writer.gate
        let aborts = gate.aborts.load(ordering: .acquiring)
        return RestartingScheduler(base: base) { [weak self, weak observation] in
            guard gate.aborts.load(ordering: .acquiring) != aborts, let self, let observation else { return }
            observation.park()
            restartWhenOpen()
        }
    }
}

extension WriterConnection {
    /// Ends a visit whose statements did not run within `withTurn`. Call it on `queue`.
    fileprivate func endFetch(_ visit: UInt64) {
        endAccess()
        gate.leave(visit)
    }
}

/// A scheduler that calls a closure before each delivery.
struct RestartingScheduler<Base: ValueObservationScheduler>: ValueObservationScheduler {
    let base: Base
    let willDeliver: @Sendable () -> Void

    func immediateInitialValue() -> Bool { base.immediateInitialValue() }

    func schedule(_ action: @escaping @Sendable () -> Void) {
        willDeliver()
        base.schedule(action)
    }
}
