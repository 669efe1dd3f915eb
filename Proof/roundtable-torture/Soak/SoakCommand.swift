import ArgumentParser
import RoundtableTestSupport

/// A long run of all faults, which also looks for leaks.
struct SoakCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "soak",
        abstract:
            "Runs many processes for hours, under faults of all kinds, and looks for loss, damage, hangs and leaks."
    )

    @OptionGroup var options: CampaignOptions
    @Option(help: "The duration in hours.") var hours = 2.0
    @Option(help: "The number of processes.") var processes = 10
    @Option(help: "The mean time between two faults, in ms.") var interval = 400.0

    func run() throws {
        try options.run(
            CampaignSettings(
                verb: "soak",
                command: "roundtable-torture soak --hours \(hours) --processes \(processes) --interval \(interval)",
                seed: 0,
                processes: processes,
                seconds: hours * 3600,
                meanInterval: interval,
                weights: [
                    (.kill, 50), (.stop, 14), (.terminalStop, 12), (.controlBlockDeleted, 4), (.controlBlockEmptied, 3),
                    (.controlBlockHalved, 3), (.controlBlockNoise, 4), (.stranger, 10),
                ],
                secondsBetweenChecks: min(10, hours * 60),
                pauseMilliseconds: 20,
                stuckAfter: 120,
                inMemory: options.inMemory
            )
        )
    }
}
