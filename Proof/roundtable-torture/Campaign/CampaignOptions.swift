import ArgumentParser
import RoundtableTestSupport

/// The options that all campaigns of random faults have.
struct CampaignOptions: ParsableArguments {
    @Option(help: "The seed of all random choices, decimal or with 0x; by default, a new one.") var seed: Seed?
    @Flag(help: "Whether the database lies in memory (/dev/shm).") var inMemory = false
    @Option(help: "A file for the report as JSON, written every minute and at the end.") var report: String?
    @Option(help: "A defect on purpose, which the campaign must find: \(CampaignWork.Defect.allCases.map(\.rawValue)).")
    var defect: String?
    @Flag(
        help:
            "Whether the database lies in a file system of 64 MiB in memory, which is full at times; needs the superuser."
    )
    var fullDisk = false
    @Option(help: "The time between two checks, in s; by default, 5 s (random) or 10 s (soak).") var checkInterval:
        Double?
    @Option(help: "A process is stuck when it makes no progress for this number of seconds.") var stuckAfter: Double =
        120
    @Option(help: "A kind of fault that the campaign does not use; can be given several times: \(CampaignFault.names).")
    var without: [CampaignFault] = []

    /// Runs a campaign, whose options of this group are replaced by those given.
    ///
    /// - throws: `ExitCode.failure` when it found something.
    func run(_ settings: CampaignSettings) throws {
        var settings = settings
        settings.seed = seed?.value ?? .random(in: 0...UInt64.max)
        settings.command += " --seed 0x\(String(settings.seed, radix: 16))\(inMemory ? " --in-memory" : "")"
        settings.report = report
        if let checkInterval { settings.secondsBetweenChecks = checkInterval }
        if fullDisk {
            settings.fillsDisk = true
            settings.command += " --full-disk"
            settings.weights.append((.diskFull, 10))
        }
        settings.weights.removeAll { without.contains($0.0) }
        guard !settings.weights.isEmpty else { throw ValidationError("at least one kind of fault must be left") }
        for fault in without { settings.command += " --without \(fault.rawValue)" }
        settings.stuckAfter = stuckAfter
        if let defect {
            guard let known = CampaignWork.Defect(rawValue: defect) else {
                throw ValidationError("no defect \(defect)")
            }
            settings.defect = known
            settings.command += " --defect \(defect)"
        }
        guard try Campaign.run(settings).isClean else { throw ExitCode.failure }
    }
}
