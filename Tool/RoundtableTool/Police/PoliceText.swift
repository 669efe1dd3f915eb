import Foundation
import RoundtableTestKit
import RoundtableToolSupport

/// A report of the police as text for people.
struct PoliceText {
    private let report: PoliceReport

    init(_ report: PoliceReport) { self.report = report }

    var lines: [StyledText] {
        var lines: [String] = []
        lines += report.convictedByRule.sorted { $0.key < $1.key }.map { "  · \($0.key): \($0.value)" }
        if let first = report.convictions.first { lines.append("  · first: \(first)") }
        lines.append("  · with notice: \(report.notified), answered: \(report.answered)" + time(report.longestAnswer))
        if report.postponed > 0 {
            lines.append(
                "  · put off by assertions: \(report.postponed)\(time(report.longestAssertion)), "
                    + "outlasted by them: \(report.expired)"
            )
        }
        let seconds = String(format: "%.1f", report.duration / .seconds(1))
        lines.append("  · seed 0x\(String(report.seed, radix: 16)), \(seconds) s")
        return [verdict] + lines.map { StyledText($0) }
    }

    private var verdict: StyledText {
        guard report.freezes > 0 else { return StyledText("✗ never frozen: nothing was judged", .bad) }
        let isGood = report.convicted == 0
        let freezes = Self.count(report.freezes, "freeze")
        return StyledText("\(isGood ? "✓" : "✗") \(report.convicted) of \(freezes) convicted", isGood ? .good : .bad)
    }

    private func time(_ longest: Duration) -> String {
        longest > .zero ? String(format: " (at most %.0f ms)", longest / .milliseconds(1)) : ""
    }

    private static func count(_ count: Int, _ noun: String) -> String { "\(count) \(noun)\(count == 1 ? "" : "s")" }

    static func json(_ report: PoliceReport) -> String { PrintedJSON.object(report, isPretty: true, inSnakeCase: true) }
}
