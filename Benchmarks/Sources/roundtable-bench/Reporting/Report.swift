import Foundation
import GRDBSQLite

/// Named figures of one side, in the order in which a table shows them.
struct Figures: Encodable, ExpressibleByDictionaryLiteral {
    private(set) var values: [(name: String, value: Double)] = []
    /// Of medians over the rounds: the middle half.
    private(set) var ranges: [String: [Double]] = [:]

    init(dictionaryLiteral elements: (String, Double)...) {
        values = elements.map { ($0.0, $0.1) }
    }

    mutating func set(_ name: String, _ value: Double) {
        if let index = values.firstIndex(where: { $0.name == name }) {
            values[index].value = value
        } else {
            values.append((name, value))
        }
    }

    /// The median, and of several rounds the middle half.
    mutating func set(_ name: String, medianOf rounds: [Double]) {
        set(name, rounds.median)
        ranges[name] = rounds.count > 1 ? rounds.middleHalf : nil
    }

    func merging(_ others: Figures) -> Figures {
        var all = self
        for (name, value) in others.values { all.set(name, value) }
        return all
    }

    /// In JSON, a range has the name of its figure with `_range` after it.
    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Name.self)
        for (name, value) in values { try container.encode(value.rounded(digits: 5), forKey: Name(name)) }
        for (name, range) in ranges {
            try container.encode(range.map { $0.rounded(digits: 5) }, forKey: Name("\(name)_range"))
        }
    }
}

/// Ours beside its peers, doing one thing.
struct Comparison {
    var ours: Figures
    var peers: [(name: String, figures: Figures)]
    /// For each peer, round by round: our speed by the peer's. Above 1, ours is faster.
    var ratios: [String: [Double]]
    /// The same of something else than speed.
    var otherRatios: [NamedRatios] = []
}

/// For each peer, round by round: how many times as good as the peer ours is.
struct NamedRatios {
    /// In JSON, with `s` after it; of the ranges, with `_ranges`.
    let key: String
    /// In a table.
    let title: String
    var ratios: [String: [Double]] = [:]
}

extension Comparison {
    /// Ours beside the others of `sides`.
    ///
    /// - parameter measurements: those of each side, round by round.
    /// - parameter speeds: the speed of each of these measurements.
    init<Measurement>(
        _ sides: [Side],
        _ measurements: [Side: [Measurement]],
        figures: ([Measurement]) -> Figures,
        speeds: ([Measurement]) -> [Double]
    ) {
        let ours = measurements[.ours] ?? []
        self.init(ours: ours.isEmpty ? [:] : figures(ours), peers: [], ratios: [:])
        for side in sides where side != .ours {
            let theirs = measurements[side] ?? []
            peers.append((side.rawValue, figures(theirs)))
            if !ours.isEmpty { ratios[side.rawValue] = Self.ratios(speeds(ours), speeds(theirs)) }
        }
    }

    /// Replaces a figure of one side.
    mutating func set(_ name: String, medianOf rounds: [Double], of side: Side) {
        if side == .ours { return ours.set(name, medianOf: rounds) }
        guard let index = peers.firstIndex(where: { $0.name == side.rawValue }) else { return }
        peers[index].figures.set(name, medianOf: rounds)
    }

    /// Pair by pair.
    static func ratios(_ ours: [Double], _ theirs: [Double]) -> [Double] { zip(ours, theirs).map { $0 / $1 } }
}

/// A key of a JSON object that is only known at run time.
private struct Name: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }
    init(_ name: String) { stringValue = name }
    init?(stringValue: String) { self.init(stringValue) }
    init?(intValue: Int) { nil }
}

extension Comparison: Encodable {
    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Name.self)
        try container.encode(ours, forKey: Name("ours"))
        try container.encode(
            Dictionary(uniqueKeysWithValues: peers.map { ($0.name, $0.figures) }),
            forKey: Name("peers")
        )
        let speeds = NamedRatios(key: "ratio", title: "", ratios: ratios)
        for named in [speeds] + otherRatios {
            let medians = named.ratios.mapValues { $0.median.rounded(digits: 4).ifFinite }
            try container.encode(medians, forKey: Name(named.key + "s"))
            let ranges = named.ratios.mapValues { ratios in
                ratios.middleHalf.map { $0.rounded(digits: 4).ifFinite }
            }
            try container.encode(ranges, forKey: Name(named.key + "_ranges"))
        }
    }
}

/// What one run of one benchmark found.
struct Report: Encodable {
    struct Machine: Encodable {
        let cores: Int
        let system: String
        /// How many of the cores other programs used during the run.
        let coresUsedByOthers: Double?

        enum CodingKeys: String, CodingKey {
            case cores, system
            case coresUsedByOthers = "cores_used_by_others"
        }

        /// - parameter load: from the beginning of the run.
        init(_ load: OtherLoad?) {
            cores = ProcessInfo.processInfo.activeProcessorCount
            system = ProcessInfo.processInfo.operatingSystemVersionString
            coresUsedByOthers = load?.cores?.rounded(digits: 3)
        }
    }

    let name: String
    /// What the main comparison is called among the variants.
    let title: String
    let unit: String
    let main: Comparison
    var variants: [(name: String, comparison: Comparison)] = []
    let seconds: Double
    let processes: Int
    let rounds: Int
    let machine: Machine
    /// Of each side; for drawing.
    var traces: [String: ContentionTrace] = [:]

    enum CodingKeys: String, CodingKey {
        case name, title, unit, variants, traces, seconds, processes, rounds, machine
        case sqliteVersion = "sqlite_version"
    }

    static var sqliteVersion: String { String(cString: sqlite3_libversion()) }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(name, forKey: .name)
        try container.encode(title, forKey: .title)
        try container.encode(unit, forKey: .unit)
        try main.encode(to: encoder)
        if !variants.isEmpty {
            let variants = Dictionary(uniqueKeysWithValues: variants.map { ($0.name, $0.comparison) })
            try container.encode(variants, forKey: .variants)
        }
        if !traces.isEmpty { try container.encode(traces, forKey: .traces) }
        try container.encode(seconds, forKey: .seconds)
        try container.encode(processes, forKey: .processes)
        try container.encode(rounds, forKey: .rounds)
        try container.encode(machine, forKey: .machine)
        try container.encode(Self.sqliteVersion, forKey: .sqliteVersion)
    }

    func json() throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(self), as: UTF8.self)
    }
}

extension Double {
    /// JSON has no infinity, which is our speed by that of a peer that got nothing done: it is null there.
    fileprivate var ifFinite: Double? { isFinite ? self : nil }

    /// With so many significant digits.
    func rounded(digits: Int) -> Double {
        guard self != 0, isFinite else { return self }
        let scale = Foundation.pow(10, Double(digits) - 1 - Foundation.log10(abs(self)).rounded(.down))
        // Dividing by a power of ten gives the shortest decimal; multiplying by its inverse would not.
        return scale >= 1 ? (self * scale).rounded() / scale : rounded()
    }
}
