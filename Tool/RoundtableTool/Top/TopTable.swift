import Foundation
import Roundtable
import RoundtableCore
import RoundtableToolSupport

/// The participants as a table that fits into a width: columns that matter less are left out first.
struct TopTable {
    let model: TopModel
    let width: Int

    private struct Column {
        let title: String
        let alignment: TextTable.Alignment
        /// The columns with the largest numbers are left out first.
        let rank: Int
        let cell: (ParticipantStatus) -> (String, TextStyle)
    }

    private static let gap = 2
    private static let narrowestName = 8
    private static let widestName = 24
    private static let nameRank = 0

    private var columns: [Column] {
        let now = model.sample?.date ?? Date()
        let rates = model.rates
        return [
            Column(title: "PID", alignment: .right, rank: 4) { (StatusText.pid($0), .dim) },
            Column(title: "NAME", alignment: .left, rank: Self.nameRank) { ($0.author, $0.hasTurn ? .title : .plain) },
            Column(title: "ROLE", alignment: .left, rank: 5) { (StatusText.role($0), .plain) },
            Column(title: "STATE", alignment: .left, rank: 1) { (StatusText.state($0), Self.style($0)) },
            Column(title: "AGE", alignment: .right, rank: 6) {
                (Self.age(max(0, now.timeIntervalSince($0.joinedAt))), .plain)
            },
            Column(title: "COMMITS/S", alignment: .right, rank: 2) {
                ($0.role == .readOnly ? "" : rates.commits(of: $0)?.text ?? "–", .plain)
            },
            Column(title: "WAITS", alignment: .right, rank: 3) {
                ($0.waiting.map(StatusText.time) ?? "–", .plain)
            },
            Column(title: "LONGEST", alignment: .right, rank: 7) {
                ($0.turnsTaken == 0 ? "–" : StatusText.time($0.longestWait), .plain)
            },
            Column(title: "TURNS", alignment: .right, rank: 8) { ($0.turnsTaken.grouped, .plain) },
            Column(title: "READS FOR", alignment: .right, rank: 9) {
                (
                    $0.oldestRead.map { StatusText.time($0.age) } ?? "–",
                    $0.oldestRead?.isPastLimit == true ? .warning : .plain
                )
            },
            Column(title: "LINE OF CODE", alignment: .left, rank: 10) {
                ($0.oldestRead?.callSite ?? $0.callSite ?? "–", .dim)
            },
        ]
    }

    /// - parameter rows: the most participants to show; nil: all of them.
    func lines(rows limit: Int?) -> [StyledText] {
        let all = model.participants
        guard !all.isEmpty else {
            let isFiltered = !(model.sample?.status.participants.isEmpty ?? true)
            return [StyledText(isFiltered ? "No participant contains '\(model.filter)'." : "No participants.", .dim)]
        }
        let scrolled = all.dropFirst(min(model.scroll, all.count - 1))
        var shown = Array(scrolled.prefix(limit ?? .max))
        let hidden = scrolled.count - shown.count
        if hidden > 0, limit ?? 0 > 1 { shown.removeLast() }
        let columns = columns
        var cells = shown.map { participant in columns.map { $0.cell(participant) } }
        let (kept, widths) = fit(columns, cells.map { $0.map(\.0) })
        cells = cells.map { row in kept.map { row[$0] } }
        let titles = kept.map { (columns[$0].title, TextStyle.title) }
        var lines = ([titles] + cells).map { row in
            var line = StyledText()
            for (index, cell) in row.enumerated() {
                let isLast = index == row.count - 1
                let text = cell.0.fitted(to: widths[index])
                let isLeft = columns[kept[index]].alignment == .left
                if index > 0 { line.append(String(repeating: " ", count: Self.gap)) }
                line.append(isLast && isLeft ? text : text.padded(to: widths[index], isLeft ? .left : .right), cell.1)
            }
            return line
        }
        if hidden > 0, limit ?? 0 > 1 {
            lines.append(StyledText("… \((hidden + 1).grouped) more (↓)", .dim))
        }
        return lines
    }

    /// The columns that fit, and their widths. A long name gets what the others leave.
    private func fit(_ columns: [Column], _ rows: [[String]]) -> ([Int], [Int]) {
        var widths = columns.indices.map { index in
            ([columns[index].title] + rows.map { $0[index] }).map(\.displayWidth).max() ?? 0
        }
        let name = columns.firstIndex { $0.rank == Self.nameRank }!
        widths[name] = min(widths[name], Self.widestName)
        let narrow = min(widths[name], Self.narrowestName)
        var kept: Set<Int> = [name]
        var used = narrow
        for index in columns.indices.sorted(by: { columns[$0].rank < columns[$1].rank }) where index != name {
            // The first column that does not fit ends it, so that a column is never there without those that matter more.
            guard used + Self.gap + widths[index] <= width else { break }
            kept.insert(index)
            used += Self.gap + widths[index]
        }
        widths[name] = min(widths[name], max(1, min(narrow, width) + max(0, width - used)))
        let order = columns.indices.filter(kept.contains)
        return (order, order.map { widths[$0] })
    }

    // MARK: Cells

    private static func style(_ participant: ParticipantStatus) -> TextStyle {
        let style = StatusText.style(participant)
        return style == .plain && participant.writing != nil ? .good : style
    }

    private static func age(_ seconds: TimeInterval) -> String {
        switch seconds {
        case ..<100: "\(Int(seconds)) s"
        case ..<5940: "\(Int(seconds / 60)) min"
        case ..<172_800: "\(Int(seconds / 3600)) h"
        default: "\(Int(min(seconds / 86_400, 1e6))) d"
        }
    }
}
