import Foundation

/// The kinds of contention that are measured.
struct Contention {
    /// Of one trial.
    let seconds: Double
    let rounds: Int
    let sides: [Side]
    /// Of all contestants.
    var settings = ContestantSettings()

    /// All processes do the same.
    ///
    /// - returns: the trials, too.
    func equal(processes: Int, tracedSeconds: Double = 0, in folder: URL) async throws -> (Comparison, [Side: [Trial]])
    {
        let trials = try await Interleaving.run(sides, rounds: rounds) { side in
            var tasks = tasks(side, processes)
            for index in tasks.indices { tasks[index].tracedSeconds = tracedSeconds }
            return try Trial.run(side, tasks, seconds: seconds, in: folder)
        }
        return (compare(trials, participants: 0..<processes), trials)
    }

    /// What it costs that the next transaction is another process's.
    func handovers(processes: Int, in folder: URL) async throws -> Comparison {
        let (speeds, trials) = try await equal(processes: processes, tracedSeconds: seconds, in: folder)
        func figures(_ trials: [Trial]) -> Figures { HandoverCosts(trials).figures }
        return Comparison(
            ours: trials[.ours].map(figures) ?? [:],
            peers: sides.filter { $0 != .ours }.map { ($0.rawValue, figures(trials[$0] ?? [])) },
            ratios: speeds.ratios
        )
    }

    /// The first process holds each transaction open for 20 ms. Gives the others' figures, and its own.
    func longWriter(processes: Int, in folder: URL) async throws -> (short: Comparison, long: Comparison) {
        let trials = try await Interleaving.run(sides, rounds: rounds) { side in
            var tasks = tasks(side, processes)
            tasks[0].holdMilliseconds = 20
            return try Trial.run(side, tasks, seconds: seconds, in: folder)
        }
        return (compare(trials, participants: 1..<processes), compare(trials, participants: 0..<1))
    }

    /// The first process is interactive, and writes every 10 ms; the others are background, and write without pause.
    /// Beside them the same with equal priorities, so that one sees what priorities do.
    func priorities(
        processes: Int,
        in folder: URL
    ) async throws -> (interactive: Comparison, background: Comparison) {
        let trials = try await Interleaving.run([true, false], rounds: rounds) { hasPriorities in
            var tasks = tasks(.ours, processes)
            tasks[0].pauseMilliseconds = 10
            if hasPriorities {
                for index in tasks.indices { tasks[index].settings.priority = index == 0 ? .interactive : .background }
            }
            return try Trial.run(.ours, tasks, seconds: seconds, in: folder)
        }
        func compare(_ participants: Range<Int>) -> Comparison {
            let (with, without) = (trials[true] ?? [], trials[false] ?? [])
            let name = "equal-priorities"
            return Comparison(
                ours: with.figures(of: participants),
                peers: [(name, without.figures(of: participants))],
                ratios: [
                    name: Comparison.ratios(
                        with.commitsPerSecond(of: participants),
                        without.commitsPerSecond(of: participants)
                    )
                ]
            )
        }
        return (compare(0..<1), compare(1..<processes))
    }

    private func tasks(_ side: Side, _ count: Int) -> [ParticipantTask] {
        (1...count).map { author in
            var task = ParticipantTask(side: side, path: "", author: author)
            task.settings = settings
            return task
        }
    }

    private func compare(_ trials: [Side: [Trial]], participants: Range<Int>) -> Comparison {
        Comparison(sides, trials, figures: { $0.figures(of: participants) }) { $0.commitsPerSecond(of: participants) }
    }
}
