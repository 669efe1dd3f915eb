import Synchronization

/// Commits that this participant made without a seat at the control block. No record says that they are its own (rule N5).
final class CommitsWithoutSeat: Sendable {
    private struct State {
        var tables: [UInt32: DatabaseChange.Tables] = [:]
        var didAdd: @Sendable () -> Void = {}
    }
    private let state = Mutex(State())

    /// The maximum number of commits. When it is reached, all are forgotten, and are reported as commits of an unknown author.
    private static let maximumCount = 1000

    func add(counter: UInt32, tables: DatabaseChange.Tables) {
        let didAdd = state.withLock { state in
            if state.tables.count >= Self.maximumCount { state.tables = [:] }
            state.tables[counter] = tables
            return state.didAdd
        }
        didAdd()
    }

    /// Takes the tables of the commits after `old` up to `new`; nil when some of them are not this participant's.
    func take(after old: UInt32, through new: UInt32) -> DatabaseChange.Tables? {
        state.withLock { state in
            let count = new &- old
            guard count > 0, count <= Self.maximumCount else { return nil }
            var tables = DatabaseChange.Tables.some([])
            for offset in 1...count {
                guard let own = state.tables.removeValue(forKey: old &+ offset) else { return nil }
                tables = tables.union(own)
            }
            return tables
        }
    }

    /// Forgets all commits, because the counter was set back and its values will recur.
    func forget() { state.withLock { $0.tables = [:] } }

    /// Sets the closure that is called after each added commit.
    func onAdd(_ body: @escaping @Sendable () -> Void) { state.withLock { $0.didAdd = body } }
}
