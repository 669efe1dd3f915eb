import RoundtableKernel
import Synchronization

/// Commits that this participant made without a seat at the control block: no record tells that they are its own (rule N5).
final class UnseatedCommits: Sendable {
    private struct State {
        var tables: [UInt32: Change.Tables] = [:]
        var didAdd: @Sendable () -> Void = {}
    }
    private let state = Mutex(State())

    /// Nobody asked for the older ones: they are told as anybody's.
    private static let maximumCount = 1000

    func add(counter: UInt32, tables: Change.Tables) {
        let didAdd = state.withLock { state in
            if state.tables.count >= Self.maximumCount { state.tables = [:] }
            state.tables[counter] = tables
            return state.didAdd
        }
        didAdd()
    }

    /// Takes the tables of the commits after `old` up to `new`; nil when some of them are not ours.
    func take(after old: UInt32, through new: UInt32) -> Change.Tables? {
        state.withLock { state in
            let count = new &- old
            guard count > 0, count <= Self.maximumCount else { return nil }
            var tables = Change.Tables.some([])
            for offset in 1...count {
                guard let own = state.tables.removeValue(forKey: old &+ offset) else { return nil }
                tables = tables.union(own)
            }
            return tables
        }
    }

    /// The counter was set back, or commits were told otherwise: numbers up to here will come again.
    func forget() { state.withLock { $0.tables = [:] } }

    /// Says whom to tell that there is something to take.
    func onAdd(_ body: @escaping @Sendable () -> Void) { state.withLock { $0.didAdd = body } }
}
