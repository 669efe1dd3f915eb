import Dispatch
import Synchronization

/// The events that wait for one loop.
package final class EventBuffer: EventConsumer {
    private struct State {
        var pending: PendingEvents
        var waiter: CheckedContinuation<StampedEvent?, Never>?
        var isFinished = false
    }

    private let state: Mutex<State>

    package init(capacity: Int) { state = Mutex(State(pending: PendingEvents(capacity: capacity))) }

    package func append(_ event: StampedEvent) -> EventReceipt {
        state.withLock { state in
            if state.isFinished { return EventReceipt() }
            if let waiter = state.waiter {
                state.waiter = nil
                // Not on the thread that reports: resuming calls the loop's executor, which may be the program's.
                return EventReceipt(wake: { DispatchQueue.global().async { waiter.resume(returning: event) } })
            }
            return EventReceipt(removed: state.pending.append(event))
        }
    }

    /// Returns the next event; nil when there will be no more. Only one loop can wait at a time: a second one replaces the first, which
    /// gets nil. If the task is cancelled, the buffer ends.
    package func next() async -> StampedEvent? {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let (ended, event, isWaiting) = state.withLock { state in
                    if let event = state.pending.take() {
                        return (CheckedContinuation<StampedEvent?, Never>?.none, Optional(event), false)
                    }
                    if state.isFinished { return (nil, nil, false) }
                    defer { state.waiter = continuation }
                    return (state.waiter, nil, true)
                }
                ended?.resume(returning: nil)
                if !isWaiting { continuation.resume(returning: event) }
            }
        } onCancel: {
            finish()
        }
    }

    package func finish() {
        let waiter = state.withLock { state in
            state.isFinished = true
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume(returning: nil)
    }
}
