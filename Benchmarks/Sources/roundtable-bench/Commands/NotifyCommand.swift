import ArgumentParser
import Foundation

struct NotifyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "notify",
        abstract: "How long until a commit of one process wakes another, that sleeps."
    )

    @OptionGroup var options: CommonOptions

    /// Who learns of what, and how.
    private enum Way: String, CaseIterable {
        case ours
        case atOnce
        case callback
        case callbackAtOnce
        case futex
        case fileWatch = "file-watch"
        case polling

        var receiver: Receiver {
            switch self {
            case .ours: .changes
            case .atOnce: .changesAtOnce
            case .callback: .callback
            case .callbackAtOnce: .callbackAtOnce
            case .futex: .futex
            case .fileWatch: .fileWatch
            case .polling: .polling
            }
        }

        var side: Side {
            switch self {
            case .ours, .atOnce, .callback, .callbackAtOnce: .ours
            case .futex, .fileWatch, .polling: .grdb
            }
        }
    }

    private static let eventsPerRound = 40

    func run() async throws {
        let load = OtherLoad()
        let seconds = options.seconds ?? 5
        let rounds = max(3, Int((seconds / (Double(Self.eventsPerRound) * 4e-3)).rounded()))
        let report = try await options.withFolder { folder in
            var pairs: [Way: Signalling] = [:]
            defer { for pair in pairs.values { pair.end() } }
            for way in Way.allCases { pairs[way] = try Signalling(way.receiver, from: way.side, in: folder) }
            // The first events fill caches, and do not count.
            for way in Way.allCases { _ = try pairs[way]!.send(5) }
            let events = try await Interleaving.run(Way.allCases, rounds: rounds) { way in
                try pairs[way]!.send(Self.eventsPerRound)
            }
            return Report(
                name: "notify",
                title: "from the commit until changes(in:) goes on, in another process; futex: from the wake",
                unit: "us",
                main: Self.comparison(of: .ours, events, isFromReturn: true),
                variants: [
                    ("changes(in:), with ChangesExecutor", Self.comparison(of: .atOnce, events, isFromReturn: true)),
                    ("observeChanges, on no queue", Self.comparison(of: .callbackAtOnce, events, isFromReturn: true)),
                    ("observeChanges", Self.comparison(of: .callback, events, isFromReturn: true)),
                    ("from before the commit", Self.comparison(of: .ours, events, isFromReturn: false)),
                ],
                seconds: seconds,
                processes: 2,
                rounds: rounds,
                machine: Report.Machine(load)
            )
        }
        try options.print(report)
    }

    /// - parameter isFromReturn: whether ratios compare the time from the commit's return, or from its call. That of the bare
    ///   futex is from the call of wake, always: what comes after it is not a part of it.
    private static func comparison(
        of way: Way,
        _ events: [Way: [[Signalling.Event]]],
        isFromReturn: Bool
    ) -> Comparison {
        func speeds(_ way: Way) -> [Double] {
            (events[way] ?? []).map { events in
                let times =
                    isFromReturn && way != .futex
                    ? events.compactMap(\.seenAfterReturn) : events.compactMap(\.seenAfterCall).map { Int($0) }
                return 1 / Double(max(1, times.percentile(0.5) ?? .max))
            }
        }
        let peers: [Way] = [.futex, .fileWatch, .polling]
        return Comparison(
            ours: events[way]?.joined().map(\.self).figures ?? [:],
            peers: peers.map { ($0.rawValue, events[$0]?.joined().map(\.self).figures ?? [:]) },
            ratios: Dictionary(
                uniqueKeysWithValues: peers.map { ($0.rawValue, Comparison.ratios(speeds(way), speeds($0))) }
            )
        )
    }
}
