import Synchronization

/// The subscribers of this participant. They outlive a feed that is replaced.
final class ChangeSubscribers: Sendable {
    /// Receives changes in commit order, on a thread of the feed. It must be quick, and must neither start nor stop the feed.
    typealias Subscriber = @Sendable ([DatabaseChange]) -> Void

    private struct Entry {
        let id: UInt64
        let body: Subscriber
    }

    private struct State {
        var entries: [Entry] = []
        var lastID: UInt64 = 0
    }

    private let state = Mutex(State())

    /// - returns: the identifier to pass to `remove`.
    func add(_ body: @escaping Subscriber) -> UInt64 {
        state.withLock { state in
            state.lastID += 1
            state.entries.append(Entry(id: state.lastID, body: body))
            return state.lastID
        }
    }

    func remove(_ id: UInt64) {
        state.withLock { $0.entries.removeAll { $0.id == id } }
    }

    func tell(_ changes: [DatabaseChange]) {
        for entry in state.withLock({ $0.entries }) { entry.body(changes) }
    }
}
