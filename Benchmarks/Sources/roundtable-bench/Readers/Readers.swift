import Foundation

/// How reading scales with threads and with processes.
struct Readers {
    /// Who reads at the same time.
    struct Setting: Hashable {
        /// Of each process.
        var threads = 1
        var processes = 1
        /// Whether one more process writes meanwhile.
        var hasWriter: Bool

        /// One thread first, then more threads, then more processes; without a writer, then with one.
        static func all(threads: Int, processes: Int) -> [Setting] {
            [false, true].flatMap { hasWriter in
                [Setting(hasWriter: hasWriter)]
                    + doubled(upTo: threads).map { Setting(threads: $0, hasWriter: hasWriter) }
                    + doubled(upTo: processes).map { Setting(processes: $0, hasWriter: hasWriter) }
            }
        }

        private static func doubled(upTo most: Int) -> [Int] { [2, 4, 8, 16, 32, 64].filter { $0 <= most } }

        /// What the speed of this setting is compared with.
        var one: Setting { Setting(hasWriter: hasWriter) }

        var title: String {
            let readers = processes > 1 ? "\(processes) processes" : threads > 1 ? "\(threads) threads" : "1 thread"
            return readers + (hasWriter ? ", beside a writer" : "")
        }
    }

    /// How many rows there are to read.
    static let rows = 1000

    /// Of one trial.
    let seconds: Double
    let rounds: Int
    let sides: [Side]
    /// The most reader connections of a pool.
    let connections: Int
    /// In milliseconds.
    let writerPause: Double

    /// - returns: the comparisons of the settings, in their order.
    func measure(_ settings: [Setting], in folder: URL) async throws -> [(name: String, comparison: Comparison)] {
        let trials = try await Interleaving.run(settings, sides, rounds: rounds) { setting, side in
            try Trial.run(side, tasks(side, setting), seconds: seconds, rows: Self.rows, in: folder)
        }
        return settings.map { setting in
            var comparison = Comparison(sides, trials[setting]!, figures: { figures($0, of: setting) }) {
                $0.map { $0.readsPerSecond }
            }
            guard setting != setting.one else { return (setting.title, comparison) }
            let scaling = Dictionary(
                uniqueKeysWithValues: sides.map { side in
                    let (many, one) = (trials[setting]![side]!, trials[setting.one]![side]!)
                    return (side, Comparison.ratios(many.map(\.readsPerSecond), one.map(\.readsPerSecond)))
                }
            )
            for (side, ratios) in scaling { comparison.set("times_one", medianOf: ratios, of: side) }
            if let ours = scaling[.ours] {
                var named = NamedRatios(key: "scaling_ratio", title: "our times_one by its")
                for side in sides where side != .ours {
                    named.ratios[side.rawValue] = Comparison.ratios(ours, scaling[side]!)
                }
                comparison.otherRatios.append(named)
            }
            return (setting.title, comparison)
        }
    }

    private func tasks(_ side: Side, _ setting: Setting) -> [ParticipantTask] {
        var settings = ContestantSettings()
        settings.readerCount = connections
        var tasks = (1...setting.processes).map { author in
            var task = ParticipantTask(side: side, path: "", author: author)
            task.readingThreads = setting.threads
            task.settings = settings
            return task
        }
        if setting.hasWriter {
            var writer = ParticipantTask(side: side, path: "", author: setting.processes + 1)
            writer.pauseMilliseconds = writerPause
            tasks.append(writer)
        }
        return tasks
    }

    private func figures(_ trials: [Trial], of setting: Setting) -> Figures {
        let results = trials.flatMap { $0.results[..<setting.processes] }
        let times = results.map(\.times).merged
        var figures = Figures()
        figures.set("reads_per_s", medianOf: trials.map(\.readsPerSecond))
        // Known when all settings are.
        figures.set("times_one", 1)
        figures.set("p50_us", times.percentile(0.5).microseconds)
        figures.set("p99_us", times.percentile(0.99).microseconds)
        figures.set("longest_ms", times.longest.milliseconds)
        figures.set("errors", Double(trials.joinedResults.reduce(0) { $0 + $1.errors }))
        if setting.hasWriter {
            let writer = setting.processes..<setting.processes + 1
            figures.set("writer_tx_per_s", trials.commitsPerSecond(of: writer).median)
        }
        return figures
    }
}

extension Trial {
    var readsPerSecond: Double { Double(results.reduce(0) { $0 + $1.reads }) / duration.seconds }
}

extension [Trial] {
    fileprivate var joinedResults: [ParticipantResult] { flatMap(\.results) }
}
