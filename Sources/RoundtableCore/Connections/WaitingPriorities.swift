import RoundtableKernel
import Synchronization

/// The priorities of a participant's writes that wait for the turn (rule T3). Safe from any thread, without a lock.
///
/// A participant has one ticket. It has the priority of the most urgent write that waits, also while another write is in front of that one,
/// because the write in front delays it.
final class WaitingPriorities: Sendable {
    typealias Priority = SharedDatabase.TurnPriority

    private let interactive = Atomic(0)
    private let normal = Atomic(0)
    private let background = Atomic(0)

    /// The priority of the most urgent write that waits; nil when none waits.
    var mostUrgent: Priority? {
        if interactive.load(ordering: .sequentiallyConsistent) > 0 { return .interactive }
        if normal.load(ordering: .sequentiallyConsistent) > 0 { return .default }
        return background.load(ordering: .sequentiallyConsistent) > 0 ? .background : nil
    }

    /// A write begins to wait. If it is more urgent than another that waits, the ticket of the participant gets its priority.
    func add(_ priority: Priority, _ seat: Seat?) {
        change(priority, by: 1)
        // A ticket that is drawn later has this priority: the participant looks at the writes that wait once more when it has set one.
        let isAhead =
            switch priority {
            case .interactive: normal.load(ordering: .sequentiallyConsistent) > 0 || isAnyInBackground
            case .default: isAnyInBackground
            case .background: false
            }
        if isAhead { seat?.raisePriority(to: priority.rawValue) }
    }

    /// A write has the turn, or waits no longer.
    func remove(_ priority: Priority) { change(priority, by: -1) }

    private var isAnyInBackground: Bool { background.load(ordering: .sequentiallyConsistent) > 0 }

    private func change(_ priority: Priority, by number: Int) {
        switch priority {
        case .interactive: interactive.wrappingAdd(number, ordering: .sequentiallyConsistent)
        case .default: normal.wrappingAdd(number, ordering: .sequentiallyConsistent)
        case .background: background.wrappingAdd(number, ordering: .sequentiallyConsistent)
        }
    }
}
