import Foundation
import Roundtable
import RoundtableToolSupport

/// The lines that are shown while the demo runs. They are redrawn on a terminal, and otherwise appended once a second.
struct DemoScreen {
    private let isInteractive: Bool
    private let start = ContinuousClock.now
    private var drawn = 0
    private var lastAppended = 0

    init(isInteractive: Bool) { self.isInteractive = isInteractive }

    mutating func show(_ members: [DemoFleet.Member]) throws {
        let elapsed = (ContinuousClock.now - start) / .seconds(1)
        if isInteractive {
            let lines = Self.bars(members, elapsed: elapsed)
            try Terminal.print(Terminal.erasing(lines: drawn) + lines.map { $0 + "\n" }.joined())
            drawn = lines.count
        } else if Int(elapsed) > lastAppended {
            lastAppended = Int(elapsed)
            try Terminal.print(Self.plain(members, second: lastAppended).map { $0 + "\n" }.joined())
        }
    }

    /// Removes the lines from the terminal.
    mutating func clear() throws {
        if isInteractive { try Terminal.print(Terminal.erasing(lines: drawn)) }
        drawn = 0
    }

    /// The width of a bar. With it, a line has at most 80 columns, even for a process that was killed.
    private static let barWidth = 15

    static func bars(_ members: [DemoFleet.Member], elapsed: Double) -> [String] {
        let most = members.filter { $0.player.role == .readWrite }.compactMap(\.report?.count).max() ?? 0
        return members.map { member in
            let count = member.report?.count ?? 0
            let isWriter = member.player.role == .readWrite
            let width = isWriter && most > 0 ? count * barWidth / most : 0
            let bar =
                String(repeating: "█", count: width) + String(repeating: "░", count: isWriter ? barWidth - width : 0)
            let rate = elapsed > 0 ? Int(Double(count) / elapsed) : 0
            let work = "\(count.grouped.padded(to: 9, .right)) \(member.player.role.noun.padded(to: 8))"
            let columns = [
                member.player.name.padded(to: 18), bar.padded(to: barWidth), work, condition(member, rate: rate),
            ]
            return "  " + columns.joined(separator: " ")
        }
    }

    static func plain(_ members: [DemoFleet.Member], second: Int) -> [String] {
        members.map { member in
            let report = member.report ?? PeerReport(phase: .ready)
            let wait = String(format: "%.1f ms", Double(report.longestWait) / 1e6)
            let count = "\(report.count.grouped.padded(to: 9, .right)) \(member.player.role.noun.padded(to: 8))"
            let time = "\(second)".padded(to: 4, .right)
            let condition = member.failure ?? "longest wait \(wait.padded(to: 9, .right))"
            return "\(time) s  \(member.player.name.padded(to: 18)) \(count)  \(condition)"
        }
    }

    private static func condition(_ member: DemoFleet.Member, rate: Int) -> String {
        if let failure = member.failure { return failure }
        return member.report.map { _ in "\(rate.grouped.padded(to: 7, .right))/s" } ?? "starting"
    }
}
