import Dispatch
import Foundation
import GRDB
import Roundtable
import Synchronization

/// What the widget shows: the last entry of the journal, kept up to date by an observation, though other processes write it.
final class DemoWidget: Sendable {
    struct Seen: Codable, Equatable, Sendable {
        /// The last entry that it shows.
        var lastEntry: Int64 = 0
        /// How often it has fetched what to show. A burst of commits costs one.
        var values = 0
        /// How many changes it was told of. When it is slow, one stands for several.
        var changes = 0
        /// From a commit until the widget's code was told of it, in µs.
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

    /// - returns: what keeps the widget up to date.
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

    /// Waits until the last entry is shown; not for ever, and not when the observation has failed.
    ///
    /// - parameter last: the last entry that there is.
    /// - throws: what the observation failed with.
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
