import RoundtableKernel
import RoundtableTestSupport

/// The measurements of a write loop.
struct WriteRecorder {
    private let began = MonotonicClock.now
    /// The waits, in ms.
    private var waits: [Double] = []
    /// The durations of the whole calls of `write`, in µs.
    private var latencies: [Double] = []
    private var errors: [String] = []
    private var errorCount = 0

    var commits: Int { latencies.count }

    var elapsed: Double { Double(MonotonicClock.now - began) / 1e9 }

    mutating func commit(waited: Nanoseconds, took: Nanoseconds) {
        waits.append(Double(waited) / 1e6)
        latencies.append(Double(took) / 1e3)
    }

    mutating func fail(_ error: any Error, waited: Nanoseconds) {
        waits.append(Double(waited) / 1e6)
        errorCount += 1
        if errors.count < 5 { errors.append("\(error)") }
    }

    var report: WriteReport {
        let sorted = latencies.sorted()
        return WriteReport(
            commits: latencies.count,
            seconds: elapsed,
            errorCount: errorCount,
            errors: errors,
            longestWaits: Array(waits.sorted(by: >).prefix(10)),
            latencyP50: percentile(0.5, ofSorted: sorted),
            latencyP99: percentile(0.99, ofSorted: sorted)
        )
    }
}
