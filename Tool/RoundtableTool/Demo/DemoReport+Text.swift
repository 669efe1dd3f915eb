import Foundation
import Roundtable
import RoundtableToolSupport

/// The report as text for people.
extension DemoReport {
    private struct Fact {
        /// Whether the fact is as it should be; nil if there is nothing to judge.
        var isGood: Bool?
        var name: String
        var value: String
    }

    var text: String { lines.plainText }

    var lines: [StyledText] {
        let facts = fleetFacts + participants.compactMap(\.seen).flatMap(widgetFacts) + commandFacts
        let width = facts.map(\.name.displayWidth).max() ?? 0
        let factLines = facts.map { fact in
            let mark = fact.isGood.map { $0 ? "✓" : "✗" } ?? "·"
            let style: TextStyle = fact.isGood.map { $0 ? .good : .bad } ?? .plain
            return StyledText("  \(mark) \(fact.name.padded(to: width))  \(fact.value)", style)
        }
        var caption: [StyledText] = ["  p50, p99, max: how long it waited, in ms, from asking until it could begin"]
        if commands != nil {
            caption.append("  The app also applies the commands, so it makes fewer commits of its own.")
        }
        let notice: [StyledText] = [
            "", "  This is a build for debugging, whose figures are worse than those of one for",
            "  release: swift run -c release roundtable demo",
        ]
        let problems = problems.map { StyledText("  ! \($0)", .bad) }
        return table.styledLines() + [""] + caption + [""] + factLines + problems + ["", verdict]
            + (isOptimized ? [] : notice)
    }

    private var verdict: StyledText {
        let count = problems.count.of("problem")
        return isGood
            ? StyledText("  All is well: no error, and no commit and no command is lost.", .good)
            : StyledText("  All is not well: \(count), marked with '!'.", .bad)
    }

    /// The table of the processes. It is at most 80 columns wide, with pids of seven digits and millions of commits.
    private var table: TextTable {
        var table = TextTable(
            columns: [
                ("process", .left), ("pid", .right), ("has made", .right), ("p50", .right), ("p99", .right),
                ("max", .right), ("errors", .right),
            ],
            indentation: "  "
        )
        // The nouns are padded so that the digits are aligned.
        let nouns = participants.map(\.role.noun.count).max() ?? 0
        table.rows = participants.map { participant in
            let count =
                switch participant.role {
                case .readWrite: participant.commits
                case .readOnly: participant.reads ?? 0
                case .outboxOnly: commands?.submitted ?? 0
                }
            return [
                participant.name, "\(participant.pid)", "\(count.grouped) \(participant.role.noun.padded(to: nouns))",
                String(format: "%.3f", participant.p50 / 1e3), String(format: "%.2f", participant.p99 / 1e3),
                String(format: participant.longestWait < 10_000 ? "%.1f" : "%.0f", participant.longestWait),
                "\(participant.errors)",
            ]
        }
        return table
    }

    private var fleetFacts: [Fact] {
        [
            Fact(name: "commits in all", value: "\(Int(transactionsPerSecond.rounded()).grouped) a second"),
            Fact(name: "fairness among writers (Jain)", value: String(format: "%.3f", jain) + ", where 1 is even"),
            Fact(name: "longest wait to write", value: Self.time(longestWait)),
            Fact(isGood: errors == 0, name: "errors", value: "\(errors)"),
            Fact(isGood: rowsFound >= rowsExpected, name: "committed rows that are there", value: rows),
            Fact(isGood: integrity == "ok", name: "integrity_check", value: integrity),
        ]
    }

    private static func time(_ milliseconds: Double) -> String {
        StatusText.time(.nanoseconds(Int64(max(0, milliseconds) * 1e6)))
    }

    private var rows: String {
        let committed = rowsExpected - rowsBefore
        let before = rowsBefore == 0 ? "" : ", and the \(rowsBefore.grouped) of earlier demos"
        if rowsFound < rowsExpected {
            return "\((rowsExpected - rowsFound).grouped) of \(committed.grouped)\(before) are missing"
        }
        let more = rowsFound - rowsExpected
        let extra = more == 0 ? "" : "; \(more.grouped) more, of processes that died before they could count them"
        return "all \(committed.grouped)\(before)\(extra)"
    }

    private var commandFacts: [Fact] {
        guard let commands else { return [] }
        let isAll = commands.submitted == commands.applied
        let counts =
            isAll
            ? "all \(commands.submitted.grouped)" : "\(commands.applied.grouped) of \(commands.submitted.grouped)"
        let order = commands.isInOrder ? "once each, in order" : "not once each, or not in order"
        return [
            Fact(
                isGood: isAll && commands.isInOrder,
                name: "submitted commands that are applied",
                value: "\(counts), \(order)"
            ),
            Fact(
                name: "submitted → seen in the snapshot",
                value: "\(Self.time(commands.p50)) (p50), \(Self.time(commands.p99)) (p99)"
            ),
            Fact(name: "snapshots published", value: commands.snapshots.grouped),
        ]
    }

    private func widgetFacts(_ seen: DemoWidget.Seen) -> [Fact] {
        let isCurrent = seen.lastEntry == lastEntry
        let shown = Int(seen.lastEntry).grouped
        return [
            Fact(
                isGood: isCurrent,
                name: "the widget shows the last entry",
                value: isCurrent ? shown : "\(shown), and the last one is \(Int(lastEntry).grouped)"
            ),
            Fact(
                name: "commit → the widget is notified",
                value: "\(Self.time(seen.p50 / 1e3)) (p50), \(Self.time(seen.p99 / 1e3)) (p99)"
            ),
        ]
    }
}
