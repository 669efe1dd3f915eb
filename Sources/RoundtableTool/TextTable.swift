/// Rows in aligned columns.
struct TextTable {
    enum Alignment { case left, right }

    var columns: [(title: String, alignment: Alignment)]
    var rows: [[String]] = []
    var indentation = ""

    var lines: [String] {
        let widths = columns.indices.map { index in
            (rows.map { $0[index].displayWidth } + [columns[index].title.displayWidth]).max() ?? 0
        }
        func line(_ cells: [String]) -> String {
            let padded = cells.indices.map { cells[$0].padded(to: widths[$0], columns[$0].alignment) }
            let text = indentation + padded.joined(separator: "  ")
            return String(text.reversed().drop { $0 == " " }.reversed())
        }
        return [line(columns.map(\.title)), line(widths.map { String(repeating: "─", count: $0) })] + rows.map(line)
    }
}

extension String {
    /// How many columns of a terminal the text takes up, for the scripts and symbols that take up two.
    var displayWidth: Int {
        reduce(0) { sum, character in
            guard let scalar = character.unicodeScalars.first?.value else { return sum }
            let isWide =
                switch scalar {
                case 0x1100...0x115F, 0x2E80...0xA4CF, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE6F,
                    0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x1F300...0x1F64F, 0x1F900...0x1F9FF, 0x20000...0x3FFFD:
                    true
                default: false
                }
            return sum + (isWide ? 2 : 1)
        }
    }

    func padded(to width: Int, _ alignment: TextTable.Alignment = .left) -> String {
        let padding = String(repeating: " ", count: max(0, width - displayWidth))
        return alignment == .left ? self + padding : padding + self
    }
}
