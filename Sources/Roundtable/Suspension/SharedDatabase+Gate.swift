import Foundation
import GRDB
import RoundtableKernel

/// Closes and opens a gate at GRDB's notifications, in the thread that posts them: when posting returns, the locks are released, or
/// the grace is over.
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

extension SharedDatabase {
    /// What opening and closing the gate entails for the rest of the database.
    func followGate() {
        gate.hook { hooks in
            hooks.didClose = { [weak self] deadline in self?.gateDidClose(deadline) ?? [] }
            hooks.willOpen = { [weak self] in self?.gateWillOpen() }
            hooks.interrupt = { [interrupt = hooks.interrupt, handles] in
                interrupt()
                handles.interrupt()
            }
        }
    }

    /// - returns: what is held all the same.
    private func gateDidClose(_ deadline: Nanoseconds) -> [Suspension.Access] {
        // The slot is the parent's.
        guard isInOwnProcess else { return [] }
        seat.show(isSuspended: true)
        handles.show(isSuspended: true)
        publishBeforeSuspension(until: deadline)
        switch gate.policy {
        case .writeLocks:
            observatory.pause()
            return []
        case .everything:
            let began = MonotonicClock.now
            return park(until: deadline) { [gate] in !gate.isToBeClosed }.map { held in
                // At least: when reads begin, nobody looks at the clock.
                let duration = Double(MonotonicClock.now.subtractingSaturating(began)) / 1e9
                let kind: Suspension.Access.Kind = held.use == .writing ? .write : .read
                return Suspension.Access(kind: kind, callSite: held.callSite, duration: duration)
            }
        }
    }

    /// Rule V9. Reads go on until connections are given up, which takes time, too.
    private func publishBeforeSuspension(until deadline: Nanoseconds) {
        let now = MonotonicClock.now
        let time = deadline.subtractingSaturating(now)
        let share = gate.policy == .everything ? time / 2 : time - time / 10
        publishers.suspend(until: now.addingSaturating(share)) { [gate] in !gate.isToBeClosed }
    }

    private func gateWillOpen() {
        guard isInOwnProcess else { return }
        switch gate.policy {
        case .writeLocks: observatory.resume()
        case .everything: unpark()
        }
        publishers.resume()
        seat.show(isSuspended: false)
        handles.show(isSuspended: false)
        // The place may have been lost during a long sleep.
        writer.betweenAccesses { [seat] in seat.rejoin() }
    }
}
