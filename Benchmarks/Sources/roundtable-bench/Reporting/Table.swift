import Foundation

extension Report {
    /// For people.
    func table() -> String {
        let processes = processes == 1 ? "1 process" : "\(processes) processes"
        var lines = [
            "\(name): \(processes), \(format(seconds)) s a side in \(rounds) rounds; "
                + "SQLite \(Self.sqliteVersion), \(machine.cores) cores"
                + (machine.coresUsedByOthers.map { ", of which others used \(format($0))" } ?? "")
        ]
        for (name, comparison) in [(title, main)] + variants {
            lines += ["", name] + comparison.rows
        }
        return lines.joined(separator: "\n")
    }
}

extension Comparison {
    fileprivate var rows: [String] {
        let sides = (ours.values.isEmpty ? [] : [("ours", ours)]) + peers.map { ($0.name, $0.figures) }
        let columns = [NamedRatios(key: "ratio", title: "our speed by its", ratios: ratios)] + otherRatios
        var rows = [
            [""] + (sides.first?.1.values.map(\.name) ?? []) + columns.map { "\($0.title) (middle half)" }
        ]
        for (name, figures) in sides {
            let ratios = columns.map { column in
                guard let ratios = column.ratios[name] else { return "" }
                return format(ratios.median, ratios.middleHalf)
            }
            rows.append([name] + figures.values.map { format($0.value, figures.ranges[$0.name]) } + ratios)
        }
        return aligned(rows)
    }
}

/// Columns, the first one flush left and the others flush right.
func aligned(_ rows: [[String]]) -> [String] {
    let widths = rows[0].indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
    return rows.map { row in
        row.enumerated().map { column, cell in
            let padding = String(repeating: " ", count: widths[column] - cell.count)
            return column == 0 ? cell + padding : padding + cell
        }.joined(separator: "  ")
    }
}

/// With its middle half.
private func format(_ value: Double, _ range: [Double]?) -> String {
    guard let range else { return format(value) }
    return "\(format(value)) (\(format(range[0]))–\(format(range[1])))"
}

func format(_ value: Double) -> String {
    if value == value.rounded(), abs(value) < 1e15 { return String(Int(value)) }
    switch abs(value) {
    case 1000...: return String(format: "%.0f", value)
    case 100...: return String(format: "%.1f", value)
    case 10...: return String(format: "%.2f", value)
    default: return String(format: "%.3f", value)
    }
}
