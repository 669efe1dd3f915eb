import Foundation

/// How long commits take that take longest.
struct CommitTail {
    /// Of one trial.
    let seconds: Double
    let rounds: Int
    let sides: [Side]
    /// Of each update.
    var rows = 1
    var settings = ContestantSettings()

    func measure(_ workload: Workload, processes: Int, in folder: URL) async throws -> Comparison {
        let trials = try await Interleaving.run(sides, rounds: rounds) { side in
            let tasks = (1...processes).map { author in
                var task = ParticipantTask(side: side, path: "", author: author)
                task.workload = workload
                task.rows = rows
                task.settings = settings
                return task
            }
            return try Trial.run(side, tasks, seconds: seconds, in: folder)
        }
        let all = 0..<processes
        var comparison = Comparison(sides, trials, figures: Self.figures) { $0.commitsPerSecond(of: all) }
        guard let ours = trials[.ours] else { return comparison }
        for (key, title, times) in Self.tails {
            func tails(_ trials: [Trial]) -> [Double] {
                trials.map { $0.results.map { $0[keyPath: times] }.merged.percentile(0.999).microseconds }
            }
            var named = NamedRatios(key: key, title: title)
            for side in sides where side != .ours {
                named.ratios[side.rawValue] = Comparison.ratios(tails(trials[side] ?? []), tails(ours))
            }
            comparison.otherRatios.append(named)
        }
        return comparison
    }

    private static var tails: [(key: String, title: String, times: KeyPath<ParticipantResult, Latencies>)] {
        [
            ("p999_ratio", "its p99.9 by ours", \.times),
            ("begun_p999_ratio", "its begun p99.9 by ours", \.timesOnceBegun),
        ]
    }

    private static func figures(_ trials: [Trial]) -> Figures {
        let results = trials.flatMap(\.results)
        let times = results.map(\.times).merged
        let begun = results.map(\.timesOnceBegun).merged
        return [
            "tx_per_s": trials.commitsPerSecond(of: 0..<(trials.first?.results.count ?? 0)).median,
            "p50_us": times.percentile(0.5).microseconds,
            "p99_us": times.percentile(0.99).microseconds,
            "p999_us": times.percentile(0.999).microseconds,
            "p9999_us": times.percentile(0.9999).microseconds,
            "max_us": times.longest.microseconds,
            "p99_of_time_us": times.percentile(ofTime: 0.99).microseconds,
            "begun_p999_us": begun.percentile(0.999).microseconds,
            "errors": Double(results.reduce(0) { $0 + $1.errors }),
        ]
    }
}
