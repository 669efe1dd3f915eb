import Synchronization

/// Wakes one task, which is the only one that waits. Wakes that come while it does not wait are kept, as one.
package final class TaskWakes: Sendable {
    private let stream: AsyncStream<Void>
    private let continuation: AsyncStream<Void>.Continuation
    /// Whether there was a wake since the last wait. The stream alone cannot tell, because a timer may take the place of a wake in it.
    private let isPending = Atomic(false)

    package init() {
        (stream, continuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    package func wake() {
        isPending.store(true, ordering: .sequentiallyConsistent)
        continuation.yield()
    }

    /// Waits for a wake, or for a time, or until the task is cancelled. It may return earlier.
    ///
    /// - returns: whether there was a wake.
    @discardableResult
    package func next(until end: ContinuousClock.Instant?) async -> Bool {
        let timer = end.map { end in
            Task { [continuation] in
                try await Task.sleep(until: end, clock: .continuous)
                continuation.yield()
            }
        }
        defer { timer?.cancel() }
        var iterator = stream.makeAsyncIterator()
        _ = await iterator.next()
        return isPending.exchange(false, ordering: .sequentiallyConsistent)
    }
}
