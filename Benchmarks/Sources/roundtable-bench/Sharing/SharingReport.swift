import Foundation

/// In µs.
struct SharingFigures: Encodable {
    let p50: Double
    let p99: Double
    let longest: Double

    init(_ latencies: Latencies) {
        p50 = latencies.percentile(0.5).microseconds
        p99 = latencies.percentile(0.99).microseconds
        longest = latencies.longest.microseconds
    }

    enum CodingKeys: String, CodingKey {
        case p50 = "p50_us"
        case p99 = "p99_us"
        case longest = "max_us"
    }

    fileprivate var cells: [String] { [p50, p99, longest].map { String(format: "%.1f", $0) } }
}

/// What a run of `sharing` found.
struct SharingReport: Encodable {
    struct Cost: Encodable {
        let name: String
        let figures: SharingFigures
        /// How many times as long as the peer's it takes: the median of the rounds.
        let timesOfPeer: Double
        let peer: String

        enum CodingKeys: String, CodingKey {
            case name, figures, peer
            case timesOfPeer = "times_of_peer"
        }
    }

    struct Leg: Encodable {
        let name: String
        let isDurable: Bool
        let figures: SharingFigures

        enum CodingKeys: String, CodingKey {
            case name, figures
            case isDurable = "is_durable"
        }
    }

    let name = "sharing"
    let costs: [Cost]
    let legs: [Leg]
    let backlogs: [SharingBacklog]
    let rounds: Int
    let machine: Report.Machine

    init(
        costs slices: [SharingCost: [LoopSlice]],
        legs: [(isDurable: Bool, SharingRoundTrip.Legs)],
        backlogs: [SharingBacklog],
        rounds: Int,
        machine: Report.Machine
    ) {
        costs = SharingCost.allCases.map { cost in
            let own = slices[cost] ?? []
            let ratios = zip(own, slices[cost.peer] ?? []).map { $1.operationsPerSecond / $0.operationsPerSecond }
            var latencies = Latencies()
            for time in own.lazy.flatMap(\.times) { latencies.record(time) }
            return Cost(
                name: cost.rawValue,
                figures: SharingFigures(latencies),
                timesOfPeer: ratios.median,
                peer: cost.peer.rawValue
            )
        }
        self.legs = legs.flatMap { isDurable, legs in
            [("submitted", legs.submitted), ("applied", legs.applied), ("snapshot seen", legs.seen)].map {
                Leg(name: $0.0, isDurable: isDurable, figures: SharingFigures($0.1))
            }
        }
        self.backlogs = backlogs
        self.rounds = rounds
        self.machine = machine
    }

    func json() throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(self), as: UTF8.self)
    }

    func table() -> String {
        let others = machine.coresUsedByOthers.map { ", of which others used \(format($0))" } ?? ""
        var lines = ["sharing: \(rounds) rounds; \(machine.cores) cores\(others)", "", "what one call costs, in µs"]
        lines += aligned(
            [["", "p50", "p99", "max", "times that of", ""]]
                + costs.map { cost in
                    let ratio = cost.name == cost.peer ? ["", ""] : [format(cost.timesOfPeer), cost.peer]
                    return [cost.name] + cost.figures.cells + ratio
                }
        )
        lines += ["", "from the beginning of a submission on, in µs"]
        lines += aligned(
            [["", "p50", "p99", "max"]]
                + legs.map { [$0.name + ($0.isDurable ? ", durable" : "")] + $0.figures.cells }
        )
        lines += ["", "without an owner, and the owner that comes then"]
        lines += aligned(
            [["senders", "commands", "submits/s", "p50 µs", "p99 µs", "max µs", "caught up in s", "applied/s"]]
                + backlogs.map { backlog in
                    ["\(backlog.senders)" + (backlog.isDurable ? ", durable" : ""), "\(backlog.count)"]
                        + [format(backlog.submitsPerSecond)] + backlog.submits.cells
                        + [backlog.catchUpSeconds.map(format) ?? "", backlog.appliedPerSecond.map(format) ?? ""]
                }
        )
        return lines.joined(separator: "\n")
    }
}
