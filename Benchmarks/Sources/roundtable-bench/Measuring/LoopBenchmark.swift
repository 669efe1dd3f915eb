import Foundation

/// A benchmark of one process in which each side repeats one operation.
struct LoopBenchmark {
    /// Short, so that a run has many pairs; long enough for several of the rarer costs, such as checkpoints.
    static let sliceDuration: Nanoseconds = 100_000_000

    let seconds: Double

    var rounds: Int { max(3, Int((seconds / Self.sliceDuration.seconds).rounded())) }

    /// - parameter slice: measures one side for so long.
    func compare(
        _ sides: [Side],
        _ slice: (Side, Nanoseconds) async throws -> LoopSlice
    ) async throws -> Comparison {
        // The first round fills caches, and does not count.
        for side in sides { _ = try await slice(side, Self.sliceDuration) }
        let slices = try await Interleaving.run(sides, rounds: rounds) { try await slice($0, Self.sliceDuration) }
        return Comparison(sides, slices, figures: Self.figures) { $0.map(\.operationsPerSecond) }
    }

    static func figures(_ slices: [LoopSlice]) -> Figures {
        let times = slices.flatMap(\.times).sorted()
        let rate = slices.map(\.operationsPerSecond).median
        return [
            "us": 1e6 / rate,
            "p50_us": (times.percentile(0.5) ?? 0).microseconds,
            "p99_us": (times.percentile(0.99) ?? 0).microseconds,
            "p999_us": (times.percentile(0.999) ?? 0).microseconds,
            "per_s": rate,
        ]
    }

    func report(
        _ name: String,
        title: String,
        main: Comparison,
        variants: [(name: String, comparison: Comparison)],
        machine: Report.Machine
    ) -> Report {
        Report(
            name: name,
            title: title,
            unit: "us",
            main: main,
            variants: variants,
            seconds: seconds,
            processes: 1,
            rounds: rounds,
            machine: machine
        )
    }
}
