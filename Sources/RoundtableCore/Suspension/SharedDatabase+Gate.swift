import Foundation
import GRDB
import RoundtableGate
import RoundtableKernel

/// Closes and opens a gate at GRDB's notifications, on the thread that posts them. When posting returns, the locks are released,
/// or the grace is over.
final class SuspensionNotifications: @unchecked Sendable {
    // @unchecked: the tokens are opaque, constant, and given back once.
    private let tokens: [any NSObjectProtocol]

    init(_ gate: SuspensionGate, grace: Nanoseconds) {
        let center = NotificationCenter.default
        tokens = [
            center.addObserver(forName: Database.suspendNotification, object: nil, queue: nil) { [weak gate] _ in
                guard let gate else { return }
                _ = gate.process.suspend(gate, until: MonotonicClock.now.addingSaturating(grace))
            },
            center.addObserver(forName: Database.resumeNotification, object: nil, queue: nil) { [weak gate] _ in
                gate?.change { $0.own.isSuspended = false }
            },
        ]
    }

    deinit { tokens.forEach(NotificationCenter.default.removeObserver) }
}

extension SharedDatabase: GateFollower {
    package func gateInterruptsWrites() {
        for companion in companions { companion.gateInterruptsWrites() }
    }

    package func gateDidClose(_ gate: SuspensionGate, until deadline: Nanoseconds) -> [SuspensionReport.Access] {
        // In a child after `fork`, the slot belongs to the parent.
        guard isInOwnProcess else { return [] }
        seat.show(isSuspended: true)
        let time = companionsDeadline(deadline)
        var held = companions.flatMap { $0.gateDidClose(gate, until: time) }
        switch gate.policy {
        case .writeLocks: observatory.pause()
        case .everything:
            let began = MonotonicClock.now
            for connection in park(until: deadline, isCalledOff: { !gate.isToBeClosed }) {
                // This is a lower bound, because the start of the access is not recorded.
                let duration = Duration.nanoseconds(Int64(clamping: MonotonicClock.now.subtractingSaturating(began)))
                let kind: SuspensionReport.Access.Kind = connection.use == .writing ? .write : .read
                held.append(SuspensionReport.Access(kind: kind, callSite: connection.callSite, duration: duration))
            }
        }
        return held
    }

    /// The deadline for the companions (rule V9). The rest of the time is for closing connections.
    private func companionsDeadline(_ deadline: Nanoseconds) -> Nanoseconds {
        let now = MonotonicClock.now
        let time = deadline.subtractingSaturating(now)
        return now.addingSaturating(gate.policy == .everything ? time / 2 : time - time / 10)
    }

    package func gateWillOpen() {
        guard isInOwnProcess else { return }
        switch gate.policy {
        case .writeLocks:
            observatory.resume()
            // Other participants may have left frames meanwhile (rule K2).
            if writer.checkpointer != nil { checkpointSoon() }
        case .everything: unpark()
        }
        for companion in companions { companion.gateWillOpen() }
        seat.show(isSuspended: false)
        // The slot may have been lost during a long sleep.
        writer.betweenAccesses { [weak self] in self?.seat.rejoin() }
        // So it is not released with the lock that `betweenAccesses` holds.
        withExtendedLifetime(self) {}
    }
}
