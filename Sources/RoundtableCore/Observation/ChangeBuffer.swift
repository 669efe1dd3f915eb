import Synchronization

/// The changes that wait for one consumer. The buffer is bounded: when it is full, a new change is merged with the last one (rule N6).
final class ChangeBuffer: Sendable {
    private struct State {
        var changes: [Change] = []
        var consumer: CheckedContinuation<Change?, Never>?
        var isFinished = false
        var notify: (@Sendable () -> Void)?
        var end: (@Sendable () -> Void)?
    }

    private let capacity: Int
    private let state = Mutex(State())

    init(capacity: Int) { self.capacity = max(1, capacity) }

    func append(_ change: Change) {
        let (consumer, notify) = state.withLock { state in
            if state.isFinished { return (CheckedContinuation<Change?, Never>?.none, (@Sendable () -> Void)?.none) }
            if let consumer = state.consumer {
                state.consumer = nil
                return (consumer, nil)
            }
            if state.changes.count < capacity {
                state.changes.append(change)
            } else {
                state.changes[state.changes.count - 1].merge(change)
            }
            return (nil, state.notify)
        }
        consumer?.resume(returning: change)
        notify?()
    }

    /// Returns the next change; nil when there will be no more. Only one consumer can wait at a time: a second one replaces the first,
    /// which gets nil.
    func next() async -> Change? {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let (ended, change, isWaiting) = state.withLock { state in
                    if !state.changes.isEmpty {
                        return (CheckedContinuation<Change?, Never>?.none, Optional(state.changes.removeFirst()), false)
                    }
                    if state.isFinished { return (nil, nil, false) }
                    defer { state.consumer = continuation }
                    return (state.consumer, nil, true)
                }
                ended?.resume(returning: nil)
                if !isWaiting { continuation.resume(returning: change) }
            }
        } onCancel: {
            finish(dropping: true)
        }
    }

    var count: Int { state.withLock { $0.changes.count } }

    /// Removes and returns the first pending change, without waiting for one.
    func takeFirst() -> Change? {
        state.withLock { $0.changes.isEmpty ? nil : $0.changes.removeFirst() }
    }

    /// - parameter notify: called after each change that no consumer was waiting for.
    func onAppend(_ notify: @escaping @Sendable () -> Void) { state.withLock { $0.notify = notify } }

    /// - parameter end: called once, when the buffer accepts no more changes.
    func onEnd(_ end: @escaping @Sendable () -> Void) { state.withLock { $0.end = end } }

    /// Ends the consumer: after the pending changes, or immediately if they are dropped.
    func finish(dropping: Bool = false) {
        let (consumer, end) = state.withLock { state in
            state.isFinished = true
            if dropping { state.changes = [] }
            defer { (state.consumer, state.notify, state.end) = (nil, nil, nil) }
            return (state.consumer, state.end)
        }
        consumer?.resume(returning: nil)
        end?()
    }
}
