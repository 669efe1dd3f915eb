import CRoundtableShims
import Foundation
import Synchronization

/// What one open database reports: features report events, and consumers receive them. An opening makes it before the features, so that no
/// event of opening is lost.
///
/// `report` never waits for a consumer, and calls none: consumers store the event in a bounded buffer, and receive it on threads of their
/// own. So it may be called with any lock of the library, on any thread, also within a write.
package final class EventReporter: Sendable {
    private struct State {
        var consumers: [UInt64: any EventConsumer] = [:]
        var lastConsumer: UInt64 = 0
        /// The number of the consumer that is the system's log; nil when there is none.
        var systemLog: UInt64?
        var isClosed = false
    }

    package let path: String
    package let author: String
    private let state = Mutex(State())
    private let hasConsumers = Atomic(false)
    private let forkGeneration = rt_fork_generation()
    private let probe: (@Sendable (any ReportedEvent) -> Void)?

    /// - parameter probe: called with each event on the thread that reports it. For tests.
    package init(path: String, author: String, probe: (@Sendable (any ReportedEvent) -> Void)? = nil) {
        self.path = path
        self.author = author
        self.probe = probe
    }

    package func report(_ event: any ReportedEvent) {
        // The queues and threads of consumers are the parent's (rule W4).
        guard rt_fork_generation() == forkGeneration else { return }
        probe?(event)
        guard hasConsumers.load(ordering: .acquiring) else { return }
        let receipts = state.withLock { state in
            // All consumers get the events in one order, and their dates rise with it.
            let stamped = StampedEvent(date: Date(), event: event)
            return state.consumers.values.map { $0.append(stamped) }
        }
        for receipt in receipts { receipt.wake?() }
    }

    // MARK: Consumers

    /// Whether there is a consumer.
    package var isHeard: Bool { hasConsumers.load(ordering: .acquiring) }

    /// Adds a consumer of the events that are reported from now on. A closed reporter finishes it immediately.
    ///
    /// - returns: the number to pass to `remove`.
    @discardableResult
    package func add(_ consumer: any EventConsumer) -> UInt64 {
        let number: UInt64? = state.withLock { state in
            if state.isClosed { return nil }
            state.lastConsumer += 1
            state.consumers[state.lastConsumer] = consumer
            hasConsumers.store(true, ordering: .releasing)
            return state.lastConsumer
        }
        if number == nil { consumer.finish() }
        return number ?? 0
    }

    /// Adds the system's log, which a log of the program may replace.
    package func addSystemLog(_ log: any EventConsumer) {
        let number = add(log)
        state.withLock { $0.systemLog = number }
    }

    /// Removes the system's log. It receives the events that were reported before.
    package func removeSystemLog() {
        if let number = state.withLock({ $0.systemLog }) { remove(number) }
    }

    package func remove(_ number: UInt64) {
        let consumer = state.withLock { state in
            let consumer = state.consumers.removeValue(forKey: number)
            hasConsumers.store(!state.consumers.isEmpty, ordering: .releasing)
            return consumer
        }
        consumer?.finish()
    }

    /// Ends the events, because the database is closed. Consumers receive those that were reported before.
    package func close() {
        let consumers = state.withLock { state in
            state.isClosed = true
            defer { state.consumers = [:] }
            hasConsumers.store(false, ordering: .releasing)
            return Array(state.consumers.values)
        }
        for consumer in consumers { consumer.finish() }
    }

    /// Waits until all closures were called with the events that were reported before. For tests.
    package func waitForDeliveries() {
        let consumers = state.withLock { Array($0.consumers.values) }
        for consumer in consumers { (consumer as? EventDelivery)?.wait() }
    }
}

extension EventReporter {
    /// The reporter of options that belong to no database.
    static let none = EventReporter(path: "", author: "")
}
