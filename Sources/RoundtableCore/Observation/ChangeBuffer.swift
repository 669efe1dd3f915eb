import Synchronization

// Rule N6: A consumer of news delays no other process: the ring is overwritten, and the queues of consumers are bounded. A slow consumer
// gets one change that stands for several, and is marked as such.

/// The changes that wait for one consumer. The buffer is bounded: when it is full, a new change is merged with the last one (rule N6).
final class ChangeBuffer: Sendable {
    private struct State {
        var changes: [DatabaseChange] = []
        var consumer: CheckedContinuation<DatabaseChange?, any Error>?
        var isFinished = false
        /// The error that the consumer gets when there are no more changes; nil: none.
        var failure: (any Error)?
        var notify: (@Sendable () -> Void)?
        var end: (@Sendable () -> Void)?

        /// The answer to a consumer that has received all changes.
        mutating func takeEnd() -> Answer {
            defer { failure = nil }
            return failure.map { .failure($0) } ?? .success(nil)
        }
    }
    private typealias Answer = Result<DatabaseChange?, any Error>

    private let capacity: Int
    private let state = Mutex(State())

    init(capacity: Int) { self.capacity = max(1, capacity) }

    func append(_ change: DatabaseChange) {
        let (consumer, notify) = state.withLock { state in
            if state.isFinished {
                return (CheckedContinuation<DatabaseChange?, any Error>?.none, (@Sendable () -> Void)?.none)
            }
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
    ///
    /// - throws: the error of `finish`, once.
    func next() async throws -> DatabaseChange? {
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let (ended, answer, isWaiting) = state.withLock { state in
                    if !state.changes.isEmpty {
                        return (
                            CheckedContinuation<DatabaseChange?, any Error>?.none,
                            Answer.success(state.changes.removeFirst()),
                            false
                        )
                    }
                    if state.isFinished { return (nil, state.takeEnd(), false) }
                    defer { state.consumer = continuation }
                    return (state.consumer, .success(nil), true)
                }
                ended?.resume(returning: nil)
                if !isWaiting { continuation.resume(with: answer) }
            }
        } onCancel: {
            finish(dropping: true)
        }
    }

    var count: Int { state.withLock { $0.changes.count } }

    /// Removes and returns the first pending change, without waiting for one.
    func takeFirst() -> DatabaseChange? {
        state.withLock { $0.changes.isEmpty ? nil : $0.changes.removeFirst() }
    }

    /// - parameter notify: called after each change that no consumer was waiting for.
    func onAppend(_ notify: @escaping @Sendable () -> Void) { state.withLock { $0.notify = notify } }

    /// - parameter end: called once, when the buffer accepts no more changes.
    func onEnd(_ end: @escaping @Sendable () -> Void) { state.withLock { $0.end = end } }

    /// Ends the consumer: after the pending changes, or immediately if they are dropped.
    ///
    /// - parameter failure: the error with which it ends; nil: none.
    func finish(dropping: Bool = false, throwing failure: (any Error)? = nil) {
        let (consumer, answer, end) = state.withLock { state in
            if !state.isFinished { state.failure = failure }
            state.isFinished = true
            if dropping { state.changes = [] }
            defer { (state.consumer, state.notify, state.end) = (nil, nil, nil) }
            return (state.consumer, state.consumer == nil ? .success(nil) : state.takeEnd(), state.end)
        }
        consumer?.resume(with: answer)
        end?()
    }
}
