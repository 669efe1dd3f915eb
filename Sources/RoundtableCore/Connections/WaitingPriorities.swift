import RoundtableKernel
import Synchronization

/// The priorities of a participant's writes that wait for the turn (rule T3). Safe from any thread.
///
/// A participant has one ticket. It has the priority of the most urgent write that waits, also while another write is in front of that one,
/// because the write in front delays it.
final class WaitingPriorities: Sendable {
    typealias Priority = SharedDatabase.TurnPriority

    private struct Counts {
        private var counts = (interactive: 0, default: 0, background: 0)

        var mostUrgent: Priority? {
            if counts.interactive > 0 { return .interactive }
            if counts.default > 0 { return .default }
            return counts.background > 0 ? .background : nil
        }

        mutating func add(_ number: Int, _ priority: Priority) {
            switch priority {
            case .interactive: counts.interactive += number
            case .default: counts.default += number
            case .background: counts.background += number
            }
        }
    }

    private let counts = Mutex(Counts())
    /// The priority of a participant none of whose writes waits.
    private let base: Priority

    init(base: Priority) { self.base = base }

    /// The priority of the most urgent write that waits; nil when none waits.
    var mostUrgent: Priority? { counts.withLock { $0.mostUrgent } }

    /// A write begins to wait. If it is more urgent than all that wait already, the ticket of the participant gets its priority.
    func add(_ priority: Priority, _ seat: Seat?) {
        counts.withLock { counts in
            let before = counts.mostUrgent
            counts.add(1, priority)
            if let before, priority.rawValue < before.rawValue { seat?.raisePriority(to: priority.rawValue) }
        }
    }

    /// A write has the turn, or waits no longer.
    func remove(_ priority: Priority) { counts.withLock { $0.add(-1, priority) } }

    /// Sets the priority of the ticket that the participant is about to draw. The lock orders it with `add`.
    func apply(to participant: Participant) {
        counts.withLock { participant.setPriority(($0.mostUrgent ?? base).rawValue) }
    }
}
