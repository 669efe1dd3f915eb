#if Service
    import CoreMetrics
    import RoundtableJobs
    import RoundtableKernel

    /// Foundation has another type of this name.
    typealias DurationTimer = CoreMetrics.Timer

    extension DurationTimer {
        convenience init(_ label: String, _ dimensions: [(String, String)], _ factory: any MetricsFactory) {
            self.init(label: label, dimensions: dimensions, preferredDisplayUnit: .seconds, factory: factory)
        }
    }

    /// The metrics of the workers of one queue.
    final class JobMetrics: Sendable {
        private let factory: any MetricsFactory
        private let interval: Duration
        private let dimensions: [(String, String)]
        private let completed: DurationTimer
        private let failed: DurationTimer

        init(queue: String, path: String, _ factory: any MetricsFactory, every interval: Duration) {
            self.factory = factory
            self.interval = interval
            let dimensions = ServiceMetrics.dimensions(path: path) + [("roundtable.queue", queue)]
            self.dimensions = dimensions
            func timer(_ outcome: String) -> DurationTimer {
                let dimensions = dimensions + [("roundtable.outcome", outcome)]
                return DurationTimer("roundtable.job.attempt.duration", dimensions, factory)
            }
            completed = timer("returned")
            failed = timer("threw")
        }

        func record(_ report: AttemptReport) {
            switch report.end {
            // The handler has neither returned nor thrown.
            case .abandoned, .workerLost: return
            default: break
            }
            (report.error == nil ? completed : failed).recordNanoseconds(Int64(clamping: report.duration))
        }

        /// Counts the jobs at intervals, until the task is cancelled. A count that fails leaves the gauges as they are.
        func run(_ count: @Sendable () async throws -> JobCounts) async {
            while !Task.isCancelled {
                if let counts = try? await count() {
                    let states = [
                        ("scheduled", counts.scheduled), ("waiting", counts.waiting), ("running", counts.running),
                        ("done", counts.done), ("dead", counts.dead), ("cancelled", counts.cancelled),
                    ]
                    for (state, count) in states {
                        Gauge(
                            label: "roundtable.jobs",
                            dimensions: dimensions + [("roundtable.job.state", state)],
                            factory: factory
                        )
                        .record(count)
                    }
                }
                do { try await Task.sleep(for: interval) } catch { return }
            }
        }
    }
#endif
