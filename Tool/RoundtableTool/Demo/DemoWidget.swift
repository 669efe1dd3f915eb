import Dispatch
import Foundation
import GRDB
import Roundtable
import RoundtableToolSupport
import Synchronization

/// A widget that shows the last entry of the journal. An observation keeps it up to date, although other processes write the journal.
final class DemoWidget: Sendable {
    struct Seen: Codable, Equatable, Sendable {
        /// The last entry that the widget shows.
        var lastEntry: Int64 = 0
        /// The number of values that the widget fetched. A burst of commits causes one fetch.
        var values = 0
        /// The number of changes that the widget was notified of. If it is slow, one change stands for several commits.
        var changes = 0
        /// The median time from a commit until the widget's code was notified of it, in µs. `p99` is the 99th percentile.
        var p50 = 0.0
        var p99 = 0.0

        enum CodingKeys: String, CodingKey {
            case values, changes
            case lastEntry = "last_entry"
            case p50 = "p50_us"
            case p99 = "p99_us"
        }
    }

    private struct State {
        var lastEntry: Int64 = 0
        var values = 0
        var delays = LatencyHistogram()
        var error: (any Error)?
    }

    private let state = Mutex(State())

    /// - returns: the observations that keep the widget up to date.
    func observe(_ database: SharedDatabase) throws -> [AnyDatabaseCancellable] {
        let observation = ValueObservation.tracking { db in
            try Int64.fetchOne(db.cachedStatement(sql: DemoDatabase.lastEntry)) ?? 0
        }
        let value = observation.start(in: database, scheduling: .async(onQueue: DispatchQueue(label: "demo.value"))) {
            [self] error in
            state.withLock { $0.error = $0.error ?? error }
        } onChange: { [self] entry in
            state.withLock { state in
                if entry < state.lastEntry {
                    state.error = ToolError("shows entry \(entry) after entry \(state.lastEntry): a commit was lost")
                }
                state.lastEntry = entry
                state.values += 1
            }
        }
        let changes = try database.observeChanges(on: DispatchQueue(label: "demo.changes")) { [self] change in
            let delay = max(0, Date().timeIntervalSince(change.time))
            state.withLock { $0.delays.record(UInt64(delay * 1e9)) }
        }
        return [value, changes]
    }

    var seen: Seen {
        state.withLock { state in
            Seen(
                lastEntry: state.lastEntry,
                values: state.values,
                changes: state.delays.count,
                p50: Double(state.delays.percentile(0.5)) / 1e3,
                p99: Double(state.delays.percentile(0.99)) / 1e3
            )
        }
    }

    /// Waits until the last entry is shown, the deadline has passed, or the observation has failed.
    ///
    /// - parameter last: the last entry of the journal.
    /// - throws: the error of the observation.
    func wait(for last: Int64, until deadline: ContinuousClock.Instant) throws {
        while ContinuousClock.now < deadline {
            let isOver = try state.withLock { state in
                if let error = state.error { throw error }
                return state.lastEntry >= last
            }
            if isOver { return }
            Thread.sleep(forTimeInterval: 0.001)
        }
    }
}
