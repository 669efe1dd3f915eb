import ArgumentParser
import Foundation

struct SharingCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sharing",
        abstract: "What sharing by snapshot files and the outbox costs, and how long a command takes to come back.",
        discussion: """
            Beside a plain replacement of a file with the same bytes, and a write to a shared database, in turns. The owner, and senders that \
            are measured together, are processes of their own.
            """
    )

    @OptionGroup var output: OutputOptions

    @Option(help: "How long each cost is measured, and how long commands go and come, in seconds.")
    var seconds = 5.0

    @Option(help: "How many commands wait for the owner that catches up.")
    var waiting = 10_000

    #if os(Linux)
        @Option(help: "Instead: freeze a program that shares so often, under the police's strict law.")
        var freezes: Int?

        @Option(help: "With --freezes: of the random moments.")
        var seed = UInt64.random(in: 0...UInt64.max)
    #endif

    func validate() throws {
        guard seconds > 0, seconds <= 3600, waiting >= 100 else {
            throw ValidationError("--seconds must be more than 0, at most 3600; --waiting must be at least 100.")
        }
    }

    private static let commandsPerRound = 20

    func run() async throws {
        #if os(Linux)
            if let freezes {
                let load = OtherLoad()
                let findings = try await output.withFolder { folder in
                    try SharingFreezes(folder, seed: seed).run(freezes: freezes)
                }
                return print(try findings.text(json: output.json, machine: Report.Machine(load)))
            }
        #endif
        let load = OtherLoad()
        let report = try await output.withFolder { folder in
            let rounds = max(3, Int((seconds / LoopBenchmark.sliceDuration.seconds).rounded()))
            let costs = try SharingCosts(in: folder)
            // The first round fills caches, and does not count.
            for cost in SharingCost.allCases { _ = try costs.measure(cost, for: LoopBenchmark.sliceDuration) }
            let slices = try await Interleaving.run(SharingCost.allCases, rounds: rounds) {
                try costs.measure($0, for: LoopBenchmark.sliceDuration)
            }
            let legs = try await legs(in: folder)
            // Syncing takes most of the time there: a tenth of the commands tells as much.
            let backlogs = try [(1, false), (8, false), (1, true), (8, true)].map { senders, isDurable in
                try SharingBacklog.run(
                    senders: senders,
                    count: isDurable ? waiting / 10 : waiting,
                    isDurable: isDurable,
                    catchesUp: !isDurable,
                    in: folder
                )
            }
            return SharingReport(
                costs: slices,
                legs: legs,
                backlogs: backlogs,
                rounds: rounds,
                machine: Report.Machine(load)
            )
        }
        print(output.json ? try report.json() : report.table())
    }

    private func legs(in folder: URL) async throws -> [(isDurable: Bool, SharingRoundTrip.Legs)] {
        let kinds = [false, true]
        var trips: [Bool: SharingRoundTrip] = [:]
        defer { for trip in trips.values { trip.end() } }
        for isDurable in kinds {
            let trip = try SharingRoundTrip(isDurable: isDurable, in: folder)
            trips[isDurable] = trip
            _ = try trip.run(5)
        }
        let rounds = max(3, Int((seconds / (Double(Self.commandsPerRound) * 10e-3)).rounded()))
        let legs = try await Interleaving.run(kinds, rounds: rounds) { try trips[$0]!.run(Self.commandsPerRound) }
        return kinds.map { ($0, legs[$0]!.reduce(into: SharingRoundTrip.Legs()) { $0.add($1) }) }
    }
}
