import ArgumentParser
import RoundtableTestSupport

/// What a campaign does.
struct CampaignSettings {
    var verb: String
    /// The command that runs the same campaign again.
    var command: String
    var seed: UInt64
    var processes: Int
    /// The end of the campaign, whichever comes first.
    var seconds: Double?
    var kills: Int?
    /// The mean time between two faults, in ms.
    var meanInterval: Double
    var weights: [(CampaignFault, Int)]
    var secondsBetweenChecks: Double
    /// The longest pause of a process between two rounds of work, in ms.
    var pauseMilliseconds: Double
    /// A process is stuck when it makes no progress for this time, in s.
    var stuckAfter: Double
    var inMemory: Bool
    /// Whether the database lies in a small file system in memory, which is full at times.
    var fillsDisk = false
    var report: String?
    var defect: CampaignWork.Defect?
}

/// The kinds of faults.
enum CampaignFault: String, CaseIterable, ExpressibleByArgument {
    case kill, stop, terminalStop
    case controlBlockDeleted, controlBlockEmptied, controlBlockHalved, controlBlockNoise
    case stranger
    /// No block is free for up to 1.5 s.
    case diskFull

    static var names: [String] { allCases.map(\.rawValue) }
}
