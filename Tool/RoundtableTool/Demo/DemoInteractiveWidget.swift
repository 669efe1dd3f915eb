import Dispatch
import Foundation
import Roundtable
import RoundtableToolSupport
import Synchronization

/// A widget with a button, which never opens the database. The entries that the user logs go into the outbox, and reappear in the
/// snapshot file that the app publishes.
final class DemoInteractiveWidget: Sendable {
    /// The report of the widget.
    struct Report: Codable, Equatable, Sendable {
        var run: UUID
        var submitted = 0
        /// The last entry that the snapshot file showed.
        var seen = 0
        /// The median time from the submission until the snapshot showed the entry, in nanoseconds. `p99` is the 99th percentile.
        var p50: UInt64 = 0
        var p99: UInt64 = 0
    }

    private struct State {
        var submitted = 0
        var seen = 0
        /// The times of submission of the entries that the snapshot has not shown yet.
        var times: [Int: UInt64] = [:]
        var delays = LatencyHistogram()
        var error: (any Error)?
    }

    private let run = UUID()
    private let outbox: CommandOutbox
    private let file: SnapshotFile<WidgetState>
    private let state = Mutex(State())

    init(_ database: URL, as name: String) throws {
        outbox = try CommandOutbox(forDatabaseAt: database, as: name)
        file = .demo(database, as: name)
    }

    private static var now: UInt64 { DispatchTime.now().uptimeNanoseconds }

    /// Shows the values that the app publishes, until the task is cancelled.
    func follow() -> Task<Void, Never> {
        Task { [self] in
            for await reading in file.values() {
                switch reading {
                case .value(let shown, _): show(shown)
                case .absent: break
                case .tooOld, .tooNew, .damaged: note(ToolError("\(file.url.path): found \(reading)"))
                }
            }
        }
    }

    private func show(_ shown: WidgetState) {
        guard shown.run == run else { return }
        let now = Self.now
        state.withLock { state in
            if shown.number < state.seen {
                state.error = state.error ?? ToolError("the snapshot shows entry \(shown.number) after \(state.seen)")
            }
            for number in (state.seen + 1)..<max(state.seen + 1, shown.number + 1) {
                if let time = state.times.removeValue(forKey: number) { state.delays.record(now - time) }
            }
            state.seen = max(state.seen, shown.number)
        }
    }

    private func note(_ error: any Error) { state.withLock { $0.error = $0.error ?? error } }

    /// Submits one more entry.
    func submit() throws {
        let number = state.withLock { state in
            state.times[state.submitted + 1] = Self.now
            return state.submitted + 1
        }
        try outbox.submit(LogEntry(run: run, number: number))
        state.withLock { $0.submitted = number }
    }

    /// Waits until the last entry is shown.
    ///
    /// - throws: `ToolError` when the deadline passes, or the snapshot file showed a wrong value.
    func waitForLast(until deadline: ContinuousClock.Instant) throws {
        while true {
            let (seen, submitted) = try state.withLock { state in
                if let error = state.error { throw error }
                return (state.seen, state.submitted)
            }
            if seen == submitted { return }
            guard ContinuousClock.now < deadline else {
                throw ToolError("submitted entry \(submitted), and the snapshot shows \(seen)")
            }
            Thread.sleep(forTimeInterval: 0.001)
        }
    }

    var report: Report {
        state.withLock { state in
            Report(
                run: run,
                submitted: state.submitted,
                seen: state.seen,
                p50: state.delays.percentile(0.5),
                p99: state.delays.percentile(0.99)
            )
        }
    }
}
