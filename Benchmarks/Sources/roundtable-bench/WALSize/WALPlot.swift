import Foundation

/// The length of each side's WAL over time, as SVG that is readable on a light and on a dark page.
struct WALPlot {
    let plan: WALSizePlan
    let findings: [WALSizeFindings]

    private static let size = (width: 860.0, height: 400.0)
    /// What the curves are drawn in.
    private static let area = (left: 90.0, right: 768.0, top: 56.0, bottom: 352.0)
    // Of a brightness that stands out from white and from black alike.
    private static let grey = "#7d8590"
    private static let colours: [Side: String] = [.ours: "#2f81f7", .grdb: "#db6d28", .sqliteC: "#8957e5"]

    func svg() -> String {
        let (width, height) = (Self.size.width, Self.size.height)
        let sides = findings.map(\.side.rawValue).joined(separator: " and ")
        var lines = [
            """
            <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(Int(width)) \(Int(height))" role="img" \
            font-family="system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif" font-size="12" fill="\(Self.grey)">
            """,
            "<title>Frames in the WAL of \(sides), over time</title>",
        ]
        lines += frameAxis() + timeAxis() + marks()
        // Ours on top.
        for findings in findings.reversed() { lines += curve(findings) }
        lines += bound() + legend()
        lines.append("</svg>\n")
        return lines.joined(separator: "\n")
    }

    // MARK: Scales

    private var end: Double { max(plan.seconds, 1) }

    /// Logarithmic: between a WAL that is kept short and one that is not are several powers of ten.
    private var highestDecade: Int {
        let most = findings.flatMap { $0.samples.compactMap(\.frames) }.max() ?? 0
        return max(4, Int(Foundation.log10(Double(max(most, 1))).rounded(.up)))
    }

    /// Fewer frames are drawn as ten: a WAL that was begun anew a moment ago.
    private static let lowestDecade = 1

    private func x(_ seconds: Double) -> Double {
        Self.area.left + (Self.area.right - Self.area.left) * min(seconds / end, 1)
    }

    private func y(_ frames: Int) -> Double {
        let decade = max(Foundation.log10(Double(max(frames, 1))), Double(Self.lowestDecade))
        let share = (decade - Double(Self.lowestDecade)) / Double(highestDecade - Self.lowestDecade)
        return Self.area.bottom - (Self.area.bottom - Self.area.top) * share
    }

    private func frameAxis() -> [String] {
        var lines = [text("frames in the WAL", Self.area.left - 8, Self.area.top - 36, anchor: "start")]
        for decade in Self.lowestDecade...highestDecade {
            let frames = Int(Foundation.pow(10, Double(decade)))
            let height = y(frames)
            let style = "stroke=\"\(Self.grey)\" stroke-opacity=\"\(decade == Self.lowestDecade ? 0.8 : 0.25)\""
            lines.append(line(Self.area.left, height, Self.area.right, height, style))
            lines.append(text(Self.grouped(frames), Self.area.left - 8, height + 4, anchor: "end"))
        }
        return lines
    }

    private func timeAxis() -> [String] {
        let steps = [1.0, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 3600]
        let step = steps.first { end / $0 <= 10 } ?? end / 10
        let inMinutes = step >= 60
        var lines: [String] = []
        for number in 0...Int(end / step) {
            let seconds = Double(number) * step
            let label = inMinutes ? "\(Int(seconds / 60))" : "\(Int(seconds))"
            let unit = number == 0 ? "" : inMinutes ? " min" : " s"
            lines.append(text(label + unit, x(seconds), Self.area.bottom + 20, anchor: "middle"))
        }
        return lines
    }

    // MARK: What is in it

    /// The least and the most of each pixel: a line between them for what changes faster than can be drawn.
    private func curve(_ findings: WALSizeFindings) -> [String] {
        let colour = Self.colours[findings.side] ?? Self.grey
        var columns: [(x: Double, least: Int, most: Int)] = []
        for sample in findings.samples {
            guard let frames = sample.frames else { continue }
            let x = x(sample.time.seconds).rounded()
            if let last = columns.last, last.x == x {
                columns[columns.count - 1].least = min(last.least, frames)
                columns[columns.count - 1].most = max(last.most, frames)
            } else {
                columns.append((x, frames, frames))
            }
        }
        guard let last = columns.last else { return [] }
        let top = columns.map { point($0.x, y($0.most)) }
        let bottom = columns.reversed().map { point($0.x, y($0.least)) }
        var lines = [
            "<polygon fill=\"\(colour)\" fill-opacity=\"0.3\" points=\"\((top + bottom).joined(separator: " "))\"/>",
            """
            <polyline fill="none" stroke="\(colour)" stroke-width="1.5" stroke-linejoin="round" \
            points="\(top.joined(separator: " "))"/>
            """,
        ]
        if findings.wasTooLarge {
            let size = String(format: "%.0f GB", Double(plan.limit) / 1e9)
            lines.append("<circle cx=\"\(number(last.x))\" cy=\"\(number(y(last.most)))\" r=\"4\" fill=\"\(colour)\"/>")
            let label = "\(findings.side.rawValue): ended at \(size)"
            lines.append(text(label, last.x, y(last.most) - 10, anchor: last.x < x(end / 2) ? "start" : "end", colour))
        }
        return lines
    }

    private func bound() -> [String] {
        let height = y(WALSizePlan.boundInFrames)
        let label = "4 × threshold"
        return [
            line(Self.area.left, height, Self.area.right, height, "stroke=\"\(Self.grey)\" stroke-dasharray=\"6 4\""),
            text(label, Self.area.right + 6, height + 4, anchor: "start"),
        ]
    }

    /// When the reader was frozen, and when it died: at the same times for all, but for the milliseconds of a look.
    private func marks() -> [String] {
        guard let freeze = findings.lazy.compactMap(\.freeze).first else { return [] }
        var lines = mark(freeze.frozenAt, "a reader is frozen", anchor: "end")
        if let died = freeze.diedAt { lines += mark(died, "and killed", anchor: "start") }
        return lines
    }

    private func mark(_ seconds: Double, _ label: String, anchor: String) -> [String] {
        let x = x(seconds)
        let style = "stroke=\"\(Self.grey)\" stroke-opacity=\"0.7\" stroke-dasharray=\"2 3\""
        return [
            line(x, Self.area.top - 4, x, Self.area.bottom, style),
            text(label, x, Self.area.top - 10, anchor: anchor),
        ]
    }

    private func legend() -> [String] {
        var lines: [String] = []
        for (index, side) in findings.map(\.side).enumerated() {
            let left = Self.area.left + Double(index) * 90
            let height = Self.size.height - 12
            let colour = Self.colours[side] ?? Self.grey
            lines.append(line(left, height - 4, left + 18, height - 4, "stroke=\"\(colour)\" stroke-width=\"3\""))
            lines.append(text(side.rawValue, left + 24, height, anchor: "start"))
        }
        let readers = plan.readers > 0 ? ", \(plan.readers) that always read" : ""
        let what = "\(plan.writers) processes that write without pause\(readers)"
        lines.append(text(what, Self.area.right, Self.size.height - 12, anchor: "end"))
        return lines
    }

    // MARK: SVG

    private func line(_ x1: Double, _ y1: Double, _ x2: Double, _ y2: Double, _ style: String) -> String {
        "<line x1=\"\(number(x1))\" y1=\"\(number(y1))\" x2=\"\(number(x2))\" y2=\"\(number(y2))\" \(style)/>"
    }

    private func text(_ text: String, _ x: Double, _ y: Double, anchor: String, _ colour: String? = nil) -> String {
        let fill = colour.map { " fill=\"\($0)\"" } ?? ""
        return "<text x=\"\(number(x))\" y=\"\(number(y))\" text-anchor=\"\(anchor)\"\(fill)>\(text)</text>"
    }

    private func point(_ x: Double, _ y: Double) -> String { "\(number(x)),\(number(y))" }

    /// A tenth of a pixel is enough.
    private func number(_ value: Double) -> String {
        value == value.rounded() ? "\(Int(value))" : String(format: "%.1f", value)
    }

    private static func grouped(_ number: Int) -> String {
        var digits = String(number)
        var groups: [String] = []
        while digits.count > 3 {
            groups.insert(String(digits.suffix(3)), at: 0)
            digits.removeLast(3)
        }
        return ([digits] + groups).joined(separator: ",")
    }
}
