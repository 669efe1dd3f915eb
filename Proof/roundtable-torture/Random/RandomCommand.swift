import ArgumentParser
import RoundtableTestSupport

/// Kills at random moments, as many as possible, and few other faults.
struct RandomCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "random",
        abstract: "Kills processes at random moments, and looks for loss, damage and hangs."
    )

    @OptionGroup var options: CampaignOptions
    @Option(help: "The campaign ends after this number of kills.") var kills = 5000
    @Option(help: "The campaign ends after this number of minutes, however many kills there were.") var minutes: Double?
    @Option(help: "The number of processes, at least 4.") var processes = 8
    @Option(help: "The mean time between two faults, in ms.") var interval = 60.0

    func validate() throws {
        guard processes >= 4 else { throw ValidationError("at least 4 processes") }
    }

    func run() throws {
        let limit = minutes.map { " --minutes \($0)" } ?? ""
        try options.run(
            CampaignSettings(
                verb: "random",
                command:
                    "roundtable-torture random --kills \(kills)\(limit) --processes \(processes) --interval \(interval)",
                seed: 0,
                processes: processes,
                seconds: minutes.map { $0 * 60 },
                kills: kills,
                meanInterval: interval,
                weights: [
                    (.kill, 90), (.stop, 3), (.terminalStop, 2), (.controlBlockDeleted, 1), (.controlBlockEmptied, 1),
                    (.controlBlockHalved, 1), (.controlBlockNoise, 1), (.stranger, 1),
                ],
                secondsBetweenChecks: 5,
                pauseMilliseconds: 2,
                stuckAfter: 120,
                inMemory: options.inMemory
            )
        )
    }
}
