import ArgumentParser
import Foundation
import GRDB
import Roundtable

struct ObserveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "observe",
        abstract: "How long until a commit gives an observation a fresh value, and what observers cost."
    )

    @OptionGroup var options: CommonOptions

    @Option(help: "For how long idle observers are counted, in seconds; 0: not at all.")
    var idleSeconds = 10.0

    @Flag(help: "Do not measure what observers cost writers.")
    var noWriters = false

    /// Who observes, and where.
    private enum Way: String, CaseIterable {
        case ours
        case readOnly = "read-only process"
        case mainQueue = "on the main queue"
        case ownProcess = "own process"
        case grdb = "grdb, own process"
    }

    private static let eventsPerRound = 40

    func run() async throws {
        let load = OtherLoad()
        let seconds = options.seconds ?? 5
        let rounds = max(3, Int((seconds / (Double(Self.eventsPerRound) * 4e-3)).rounded()))
        let report = try await options.withFolder { folder in
            var report = try await latency(rounds: rounds, in: folder)
            if !noWriters { report.variants += try await costToWriters(seconds: seconds, in: folder) }
            return Report(
                name: "observe",
                title: "from the commit to a fresh value in another process",
                unit: "us",
                main: report.main,
                variants: report.variants,
                seconds: seconds,
                processes: 2,
                rounds: rounds,
                machine: Report.Machine(load)
            )
        }
        try options.print(report)
    }

    // MARK: Latency and idling

    private func latency(
        rounds: Int,
        in folder: URL
    ) async throws -> (main: Comparison, variants: [(name: String, comparison: Comparison)]) {
        var pairs: [Way: Signalling] = [:]
        defer { for pair in pairs.values { pair.end() } }
        for way in Way.allCases { pairs[way] = try Self.signalling(way, in: folder) }
        for way in Way.allCases { _ = try pairs[way]!.send(5) }
        let events = try await Interleaving.run(Way.allCases, rounds: rounds) { way in
            try pairs[way]!.send(Self.eventsPerRound)
        }
        func speeds(_ way: Way) -> [Double] {
            events[way]!.map { 1 / Double(max(1, $0.compactMap(\.seenAfterReturn).percentile(0.5) ?? .max)) }
        }
        let others = Way.allCases.filter { $0 != .ours }
        let main = Comparison(
            ours: Array(events[.ours]!.joined()).figures,
            peers: others.map { ($0.rawValue, Array(events[$0]!.joined()).figures) },
            ratios: Dictionary(
                uniqueKeysWithValues: others.map { ($0.rawValue, Comparison.ratios(speeds(.ours), speeds($0))) }
            )
        )
        guard idleSeconds > 0 else { return (main, []) }
        let idle = try pairs[.ours]!.idleFigures(seconds: idleSeconds)
        let readOnly = try pairs[.readOnly]!.idleFigures(seconds: idleSeconds)
        guard let idle, let readOnly else { return (main, []) }
        let comparison = Comparison(ours: idle, peers: [(Way.readOnly.rawValue, readOnly)], ratios: [:])
        return (main, [("an observer while nothing is written", comparison)])
    }

    private static func signalling(_ way: Way, in folder: URL) throws -> Signalling {
        switch way {
        case .ours: return try Signalling(.value, from: .ours, in: folder)
        case .readOnly: return try Signalling(.readOnlyValue, from: .ours, in: folder)
        case .mainQueue: return try Signalling(.mainValue, from: .ours, in: folder)
        case .ownProcess:
            let path = try Fixture.create(in: folder, name: "own")
            let url = URL(fileURLWithPath: path)
            let database: SharedDatabase = try SharedDatabase.open(
                at: url,
                schema: SharedSchema(Fixture.migrator),
                as: "own"
            )
            return try Signalling(observing: database, in: folder)
        case .grdb:
            let path = try Fixture.create(in: folder, name: "grdb-own")
            return try Signalling(observing: DatabasePool(path: path), in: folder)
        }
    }

    // MARK: What it costs writers

    private static let trials = 4

    private func costToWriters(
        seconds: Double,
        in folder: URL
    ) async throws -> [(name: String, comparison: Comparison)] {
        var variants: [(name: String, comparison: Comparison)] = []
        for writers in [1, 4] {
            let trials = try await Interleaving.run([0, 1, 4], rounds: Self.trials) { observers in
                let tasks = (1...writers + observers).map { author in
                    var task = ParticipantTask(side: .ours, path: "", author: author)
                    task.isObserver = author > writers
                    return task
                }
                return try Trial.run(.ours, tasks, seconds: seconds / Double(Self.trials), in: folder)
            }
            for observers in [1, 4] {
                let (with, without) = (trials[observers]!, trials[0]!)
                let name = "unobserved"
                let comparison = Comparison(
                    ours: with.figures(of: 0..<writers),
                    peers: [(name, without.figures(of: 0..<writers))],
                    ratios: [
                        name: Comparison.ratios(
                            with.commitsPerSecond(of: 0..<writers),
                            without.commitsPerSecond(of: 0..<writers)
                        )
                    ]
                )
                variants.append(("\(writers) writing, \(observers) observing process(es)", comparison))
            }
        }
        return variants
    }
}
