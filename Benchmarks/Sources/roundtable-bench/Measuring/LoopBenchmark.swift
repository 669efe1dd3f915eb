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

    /// The same of ways of ours, beside one of them.
    func compare<Way: RawRepresentable<String> & Hashable>(
        _ ways: [Way],
        to base: Way,
        _ slice: (Way, Nanoseconds) async throws -> LoopSlice
    ) async throws -> Comparison {
        for way in ways { _ = try await slice(way, Self.sliceDuration) }
        let slices = try await Interleaving.run(ways, rounds: rounds) { try await slice($0, Self.sliceDuration) }
        let bases = slices[base] ?? []
        var comparison = Comparison(ours: Self.figures(bases), peers: [], ratios: [:])
        for way in ways where way != base {
            let others = slices[way] ?? []
            comparison.peers.append((way.rawValue, Self.figures(others)))
            comparison.ratios[way.rawValue] = Comparison.ratios(
                bases.map(\.operationsPerSecond),
                others.map(\.operationsPerSecond)
            )
        }
        return comparison
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
