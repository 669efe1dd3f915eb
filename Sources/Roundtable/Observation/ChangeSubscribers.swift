import Synchronization

/// Those who are told of changes, by one feed after the other.
final class ChangeSubscribers: Sendable {
    /// Given changes in commit order, on a thread of the feed. It must be quick, and neither start nor stop the feed.
    typealias Subscriber = @Sendable ([Change]) -> Void

    /// Why changes are told late, and all together.
    enum Missed: Sendable {
        case whilePaused
        /// There was no feed, and no connection.
        case whileParked
    }

    private struct Entry {
        let id: UInt64
        let startsAnew: Bool
        let body: Subscriber
    }

    private struct State {
        var entries: [Entry] = []
        var lastID: UInt64 = 0
    }

    private let state = Mutex(State())

    /// - parameter startsAnew: whether those whom this one tells have begun anew since there was no feed: what they missed is no
    ///   news to them.
    /// - returns: what to give to `remove`.
    func add(startsAnew: Bool = false, _ body: @escaping Subscriber) -> UInt64 {
        state.withLock { state in
            state.lastID += 1
            state.entries.append(Entry(id: state.lastID, startsAnew: startsAnew, body: body))
            return state.lastID
        }
    }

    func remove(_ id: UInt64) {
        state.withLock { $0.entries.removeAll { $0.id == id } }
    }

    func tell(_ changes: [Change], _ missed: Missed?) {
        for entry in state.withLock({ $0.entries }) where !(entry.startsAnew && missed == .whileParked) {
            entry.body(changes)
        }
    }
}
