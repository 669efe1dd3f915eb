/// What a fleet does to its workers, and when: chosen by a seed alone, so the same seed makes the same plan.
///
/// The moments at which faults meet the workers differ from run to run, because the system schedules the processes. A seed that has
/// failed fails again often, not always.
public struct FaultPlan: Sendable {
    /// Something that happens to a worker, or to all.
    public enum Fault: Hashable, Sendable, CustomStringConvertible {
        /// SIGKILL. A new worker takes the place of the killed one.
        case kill
        /// SIGSTOP, and SIGCONT after the time of the plan.
        case stop
        /// The notice of a suspension, the freeze as on iOS, and the end of it: see ``SuspensionPolice``. On Linux only.
        case suspend
        /// The next process that passes this ``FaultPoint`` waits for the time of the plan.
        case delay(at: String)
        /// The file system of the fleet is full for the time of the plan: see ``Fleet/Disk``.
        case diskFull

        public var description: String {
            switch self {
            case .kill: "kill"
            case .stop: "stop"
            case .suspend: "suspend"
            case .delay(let name): "delay at '\(name)'"
            case .diskFull: "disk full"
            }
        }
    }

    /// One fault of the plan.
    public struct Event: Sendable, Hashable {
        public var fault: Fault
        /// The time between the end of the fault before it, or the start, and this one.
        public var pause: Duration
        /// How long it lasts.
        public var duration: Duration
        /// Chooses the worker: the remainder by the number of running workers.
        public var victim: UInt64
    }

    /// The faults, and how often each occurs in relation to the others. They come in rounds: in each, every fault occurs as often as its
    /// weight says, in a random order. So a short run meets all of them, too. One with a weight below 1 does not occur.
    public var faults: [(fault: Fault, weight: Int)]
    /// The time between two faults. Negative times count as none, and times of more than a year as a year.
    public var pauses: ClosedRange<Duration> = .milliseconds(1)...(.milliseconds(30))
    /// How long stops, suspensions, delays and a full disk last, within the same limits.
    public var durations: ClosedRange<Duration> = .milliseconds(1)...(.milliseconds(60))
    /// The number of faults; `Int.max` for faults until all children have ended.
    public var count: Int

    /// - Parameters:
    ///   - faults: the kinds of faults, with their weights.
    ///   - count: the number of faults; `Int.max` for faults until all children have ended.
    public init(_ faults: [(fault: Fault, weight: Int)] = [(.kill, 1), (.stop, 4)], count: Int = 20) {
        self.faults = faults
        self.count = count
    }

    /// No faults.
    public static let none = FaultPlan([], count: 0)

    /// The faults of a seed, in order.
    public func events(seed: UInt64) -> some Sequence<Event> {
        var generator = SeededGenerator(seed: seed)
        let faults = faults.filter { $0.weight > 0 }
        var left = faults.isEmpty ? 0 : count
        var round: [(fault: Fault, weight: Int)] = []
        return AnyIterator {
            guard left > 0 else { return nil }
            left -= 1
            if round.isEmpty { round = faults }
            return event(of: &round, using: &generator)
        }
    }

    /// - parameter round: the faults that are left in this round, and how often each.
    private func event(of round: inout [(fault: Fault, weight: Int)], using generator: inout SeededGenerator) -> Event {
        func duration(_ range: ClosedRange<Duration>) -> Duration {
            let year = 31_536_000e6
            let bounds = [range.lowerBound, range.upperBound].map { Int(min(max($0 / .microseconds(1), 0), year)) }
            return .microseconds(Int.random(in: bounds[0]...bounds[1], using: &generator))
        }
        var left = Int.random(in: 0..<round.reduce(0) { $0 + $1.weight }, using: &generator)
        let choice = round.firstIndex { choice in
            left -= choice.weight
            return left < 0
        }!
        let fault = round[choice].fault
        round[choice].weight -= 1
        if round[choice].weight == 0 { round.remove(at: choice) }
        return Event(
            fault: fault,
            pause: duration(pauses),
            duration: duration(durations),
            victim: generator.next()
        )
    }
}
