import Dispatch
import RoundtableGate
import RoundtableKernel
import Synchronization

/// Lets a participant that reads or observes, and does not write, follow the control block when it is replaced, and claim another slot
/// when its own is lost (rule L4). Writers find that out when they take the turn.
///
/// It has no timer, and does not watch the file: it looks when the participant reads or has news.
final class Rejoining: Sendable {
    private let seat: Seat
    private let request = Mutex<(@Sendable () -> Void)?>(nil)

    init(_ seat: Seat) { self.seat = seat }

    /// Sets the function that lets the participant follow. It is called on a thread of its own, so it may wait.
    func begin(_ request: @escaping @Sendable () -> Void) { self.request.withLock { $0 = request } }

    /// Looks at the place of the control block, every 250 ms at most. It is called with each read, and waits for nothing.
    func look() {
        if seat.mayHaveMoved(at: MonotonicClock.approximateNow) { follow() }
    }

    /// Lets the participant follow to a control block that was just seen. It does so later, on another thread: the caller may hold a lock,
    /// with which the database must not be released, and a read must not wait for the writer's connection to be opened.
    func follow() {
        DispatchQueue.global().async { [self] in followNow() }
    }

    func followNow() { request.withLock { $0 }?() }
}

extension SharedDatabase {
    /// Lets `rejoining` use this database, and shows its oldest read in each slot that it claims (rule O2).
    func followControlBlock() {
        rejoining.begin { [weak self] in self?.followBlockBetweenAccesses() }
        seat.follow { [weak readers] unusable in
            if unusable == nil { readers?.showReadsAgain() }
        }
    }

    private func followBlockBetweenAccesses() {
        guard isInOwnProcess, !gate.isClosed else { return }
        writer.betweenAccesses { [weak self] in

            // Rule F7: After the gate has opened, or a sleep of any length, a seat that was lost is taken again before the next turn (L4),
            // however short ago the block was compared; also by a participant that does not write. Observers are notified of everything
            // that was missed together, as one change.
            // The gate may have closed meanwhile. When it opens, the participant rejoins in any case (rule F7).
            guard let self, !gate.isClosed else { return }
            seat.followBlock()
        }
        // The caller keeps this database until here, so it is not released with the lock that `betweenAccesses` holds.
        withExtendedLifetime(self) {}
    }
}
