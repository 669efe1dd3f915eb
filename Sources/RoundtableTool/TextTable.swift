/// Rows in aligned columns.
struct TextTable {
    enum Alignment { case left, right }

    var columns: [(title: String, alignment: Alignment)]
    var rows: [[String]] = []
    var indentation = ""

    var lines: [String] {
        let widths = widths
        return header(widths) + rows.map { line($0, widths) }
    }

    /// The rows of a table of which the first part was printed before, with the widths of that part. The first part has a header.
    func lines(continuing known: inout [Int]?) -> [String] {
        let isFirst = known == nil
        let widths = known ?? widths
        known = widths
        return (isFirst ? header(widths) : []) + rows.map { line($0, widths) }
    }

    /// The widths that the titles and the rows need.
    fileprivate var widths: [Int] {
        columns.indices.map { index in
            (rows.map { $0[index].displayWidth } + [columns[index].title.displayWidth]).max() ?? 0
        }
    }

    fileprivate func header(_ widths: [Int]) -> [String] {
        [line(columns.map(\.title), widths), line(widths.map { String(repeating: "─", count: $0) }, widths)]
    }

    fileprivate func line(_ cells: [String], _ widths: [Int]) -> String {
        var text = indentation
        for (index, cell) in cells.enumerated() {
            text += (index == 0 ? "" : "  ") + cell.padded(to: widths[index], columns[index].alignment)
        }
        while text.utf8.last == UInt8(ascii: " ") { text.removeLast() }
        return text
    }
}

/// Writes rows to standard output as they are appended. The columns have the widths that the first rows need, so a later cell may be
/// wider than its column.
struct StreamedTable {
    /// The number of rows that determine the widths.
    private static let firstRows = 500

    private var table: TextTable
    private let textWhenEmpty: String
    /// The widths of the columns; nil until the header is written.
    private var widths: [Int]?
    private var buffer = LineBuffer()
    private(set) var isEmpty = true
    private var hasEnded = false

    init(columns: [(title: String, alignment: TextTable.Alignment)], orWhenEmpty text: String) {
        table = TextTable(columns: columns)
        textWhenEmpty = text
    }

    mutating func append(_ row: [String]) {
        isEmpty = false
        if let widths { return buffer.append(table.line(row, widths)) }
        table.rows.append(row)
        if table.rows.count >= Self.firstRows { begin() }
    }

    private mutating func begin() {
        widths = table.widths
        for line in table.lines { buffer.append(line) }
        table.rows = []
    }

    /// Writes the remaining rows. No rows may be appended afterwards.
    mutating func end() {
        if hasEnded { return }
        hasEnded = true
        if widths == nil { begin() }
        if isEmpty { buffer.append(textWhenEmpty) }
        buffer.flush()
    }
}

/// Lines that are written to standard output, many at a time.
struct LineBuffer {
    private static let size = 64 << 10
    private var text = ""

    /// - parameter line: a line without its line end. Control characters in it are made visible.
    mutating func append(_ line: String) { append(raw: line.visibleLine + "\n") }

    mutating func append(raw more: String) {
        text += more
        if text.utf8.count >= Self.size { flush() }
    }

    mutating func flush() {
        if !text.isEmpty { Terminal.write(text) }
        text = ""
    }
}

extension String {
    /// The number of terminal columns that the text takes. Characters of some scripts, and symbols, take two.
    var displayWidth: Int {
        if isPlain { return utf8.count }
        return reduce(0) { sum, character in
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
