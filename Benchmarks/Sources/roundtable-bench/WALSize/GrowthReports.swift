import Roundtable
import Synchronization

/// What the library tells one process of those that keep the WAL from becoming short.
final class GrowthReports: Sendable {
    private let reports = Mutex<[GrowthReport]>([])

    var all: [GrowthReport] { reports.withLock { $0 } }

    func follow(_ options: inout SharedDatabase.Options) {
        options.onEvent = { [self] event in
            guard case .checkpointHeldUp(let health) = event.kind else { return }
            let time = Clock.now
            let culprits = health.pins.map(\.holder).map {
                GrowthReport(time: time, culprit: $0.name ?? "unknown", pid: $0.pid)
            }
            reports.withLock { $0 += culprits }
        }
    }
}
