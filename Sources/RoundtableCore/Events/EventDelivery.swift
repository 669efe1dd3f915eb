import Dispatch
import Synchronization

/// Calls a closure with events, one after the other, on a queue of its own.
package final class EventDelivery: EventConsumer {
    private struct State {
        var pending: PendingEvents
        var isScheduled = false
        var isFinished = false
    }

    private let state: Mutex<State>
    private let queue: DispatchQueue
    private let onEvent: @Sendable (StampedEvent) -> Void

    package init(_ label: String, capacity: Int, _ onEvent: @escaping @Sendable (StampedEvent) -> Void) {
        state = Mutex(State(pending: PendingEvents(capacity: capacity)))
        queue = DispatchQueue(label: label)
        self.onEvent = onEvent
    }

    package func append(_ event: StampedEvent) -> EventReceipt {
        state.withLock { state in
            if state.isFinished { return EventReceipt() }
            var receipt = EventReceipt(removed: state.pending.append(event))
            if !state.isScheduled {
                state.isScheduled = true
                // This keeps the delivery until it has delivered everything.
                receipt.wake = { [self] in queue.async { self.deliver() } }
            }
            return receipt
        }
    }

    package func finish() { state.withLock { $0.isFinished = true } }

    private func deliver() {
        while let event = take() { onEvent(event) }
    }

    private func take() -> StampedEvent? {
        state.withLock { state in
            let event = state.pending.take()
            if event == nil { state.isScheduled = false }
            return event
        }
    }

    /// Waits until the closure was called with all events that were appended before. For tests.
    func wait() { queue.sync {} }
}
