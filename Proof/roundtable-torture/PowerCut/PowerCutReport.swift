import Foundation
import Roundtable

/// What a campaign of power cuts has found.
struct PowerCutReport: Codable {
    struct Failure: Codable {
        var state: CrashState.Name
        var traceSeed: UInt64
        var finding: CrashStateChecker.Finding
        var powerCut: String
        var trace: String?
    }

    /// What one trace has shown.
    struct Part {
        var events = 0
        var cutPoints = 0
        var replayed = 0
        var distinctStates = 0
        var openedByLibrary = 0
        var statesWithLoss = 0
        var largestLoss: UInt64 = 0
        var counts: [String: Int] = [:]
        var failures: [Failure] = []

        mutating func note(_ observation: CrashStateChecker.Observation, _ bounds: AcknowledgedBounds) {
            guard observation.defect == nil, observation.commits < bounds.commit else { return }
            statesWithLoss += 1
            largestLoss = max(largestLoss, bounds.commit - observation.commits)
        }

        mutating func add(
            _ finding: CrashStateChecker.Finding,
            _ name: CrashState.Name,
            _ seed: UInt64,
            _ powerCut: String
        ) {
            counts[finding.kind.rawValue, default: 0] += 1
            if failures.count < 20 {
                failures.append(Failure(state: name, traceSeed: seed, finding: finding, powerCut: powerCut))
            }
        }

        mutating func keep(_ trace: String) {
            for index in failures.indices { failures[index].trace = trace }
        }
    }

    var durability: CommitDurability
    var ignoredSyncs: IgnoredSyncs
    var seed: UInt64
    var wantedStates: Int
    var traces = 0
    var events = 0
    var cutPoints = 0
    var replayed = 0
    var distinctStates = 0
    var openedByLibrary = 0
    /// Replayed states without the last acknowledged commits, and how many commits at most. With `machine`, each of them is a failure.
    var statesWithLoss = 0
    var largestLoss: UInt64 = 0
    /// How often each kind of defect was found.
    var counts: [String: Int] = [:]
    var failures: [Failure] = []
    var seconds = 0.0

    init(_ campaign: PowerCutCampaign) {
        durability = campaign.durability
        ignoredSyncs = campaign.ignored
        seed = campaign.seed
        wantedStates = campaign.states
    }

    /// Whether enough is known to end.
    var isHopeless: Bool { failures.count >= 20 }

    mutating func add(_ part: Part) {
        traces += 1
        events += part.events
        cutPoints += part.cutPoints
        replayed += part.replayed
        distinctStates += part.distinctStates
        openedByLibrary += part.openedByLibrary
        statesWithLoss += part.statesWithLoss
        largestLoss = max(largestLoss, part.largestLoss)
        counts.merge(part.counts, uniquingKeysWith: +)
        failures += part.failures
    }

    func text(program: String) -> String {
        var lines = [
            "power cuts, synchronous = \(durability == .machine ? "FULL" : "NORMAL"), seed \(seed)",
            "  traces                      \(traces), with \(events) events, cut at \(cutPoints) of them",
            "  states                      \(replayed), of which \(distinctStates) have different files",
            "  opened by the library, too  \(openedByLibrary)",
            "  without the last commits    \(statesWithLoss), at most \(largestLoss) commits\(durability == .machine ? "" : ", which is allowed")",
            "  time                        \(Int(seconds)) s",
        ]
        if ignoredSyncs != .none { lines.append("  FORGOTTEN SYNCS             \(ignoredSyncs.rawValue)") }
        for kind in CrashStateChecker.Finding.Kind.allCases {
            lines.append(
                "  \(kind.words.padding(toLength: 28, withPad: " ", startingAt: 0))\(counts[kind.rawValue] ?? 0)"
            )
        }
        if counts.isEmpty { lines.append("Nothing is lost that was acknowledged and synced, and nothing is corrupt.") }
        for failure in failures.prefix(10) {
            lines.append("FAILED \(failure.finding.kind.words), state \(failure.state): \(failure.finding.text)")
            lines.append("  \(failure.powerCut)")
            if let trace = failure.trace {
                let forgotten = ignoredSyncs == .none ? "" : " --ignore-sync \(ignoredSyncs.rawValue)"
                lines.append(
                    "  replay: \(program) powercut --durability \(durability == .machine ? "full" : "normal")"
                        + "\(forgotten) --trace \(trace) --seed \(failure.traceSeed) --only \(failure.state)"
                )
            }
        }
        return lines.joined(separator: "\n")
    }
}
