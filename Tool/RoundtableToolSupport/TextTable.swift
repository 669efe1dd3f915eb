/// Rows in aligned columns.
package struct TextTable {
    package enum Alignment { case left, right }

    package var columns: [(title: String, alignment: Alignment)]
    package var rows: [[String]] = []
    package var indentation = ""

    package init(columns: [(title: String, alignment: Alignment)], rows: [[String]] = [], indentation: String = "") {
        self.columns = columns
        self.rows = rows
        self.indentation = indentation
    }

    /// What is the same for all rows of a table.
    package struct Layout: Equatable {
        package var widths: [Int]
        /// The number of columns that are beside each other. The values of the others follow below their row, each with its title.
        package var besideEachOther: Int

        package init(widths: [Int], besideEachOther: Int) {
            self.widths = widths
            self.besideEachOther = besideEachOther
        }
    }

    package var lines: [String] { lines(in: nil) }

    /// The lines of a table in at most `width` columns, with a dim rule.
    ///
    /// - parameter style: the style of a row.
    package func styledLines(
        in width: Int? = nil,
        style: ((_ index: Int) -> TextStyle) = { _ in .plain }
    ) -> [StyledText] {
        let layout = layout(in: width)
        return styledHeader(layout, in: width)
            + rows.enumerated().flatMap { index, row in
                lines(of: row, layout, in: width).map { StyledText($0, style(index)) }
            }
    }

    private func styledHeader(_ layout: Layout, in width: Int?) -> [StyledText] {
        zip(header(layout, in: width), [.plain, .dim]).map { StyledText($0, $1) }
    }

    /// The same as ``lines(continuing:in:minimums:)``, with a dim rule.
    package func styledLines(
        continuing known: inout Layout?,
        in width: Int? = nil,
        minimums: [String: Int] = [:]
    ) -> [StyledText] {
        let isFirst = known == nil
        let lines = lines(continuing: &known, in: width, minimums: minimums)
        return lines.enumerated().map { StyledText($1, isFirst && $0 == 1 ? .dim : .plain) }
    }

    /// The lines of a table in at most `width` columns of a terminal; nil: any number.
    ///
    /// Where the columns do not all fit, the last ones follow below their row. Only a word that is wider than the terminal exceeds it.
    package func lines(in width: Int?) -> [String] {
        let layout = layout(in: width)
        return header(layout, in: width) + rows.flatMap { lines(of: $0, layout, in: width) }
    }

    /// The rows of a table of which the first part was printed before, with the layout of that part. The first part has a header.
    ///
    /// - Parameters:
    ///   - known: nil at the first part.
    ///   - width: the columns of the terminal; nil: any number.
    ///   - minimums: the least widths of columns by title, for values that come later.
    package func lines(continuing known: inout Layout?, in width: Int? = nil, minimums: [String: Int] = [:]) -> [String]
    {
        let isFirst = known == nil
        let layout = known ?? layout(in: width, minimums: minimums)
        known = layout
        return (isFirst ? header(layout, in: width) : []) + rows.flatMap { lines(of: $0, layout, in: width) }
    }

    fileprivate func layout(in width: Int?, minimums: [String: Int] = [:]) -> Layout {
        let widths = columns.indices.map { index in
            let title = columns[index].title
            let cells = rows.map { $0[index].visibleLine.displayWidth }
            return max(cells.max() ?? 0, title.displayWidth, minimums[title] ?? 0)
        }
        guard let width else { return Layout(widths: widths, besideEachOther: widths.count) }
        var (sum, count) = (indentation.displayWidth, 0)
        for column in widths {
            sum += column + (count == 0 ? 0 : Self.gap.count)
            if sum > width, count > 0 { break }
            count += 1
        }
        return Layout(widths: widths, besideEachOther: count)
    }

    /// - parameter isCut: whether titles are cut to the widths of the columns.
    package func header(_ layout: Layout, in width: Int?, isCut: Bool = false) -> [String] {
        let titles = columns.prefix(layout.besideEachOther).enumerated().map { index, column in
            isCut ? column.title.fitted(to: layout.widths[index]) : column.title
        }
        let room = width.map { max(1, $0 - indentation.displayWidth) } ?? .max
        let rules = layout.widths.prefix(titles.count).map { String(repeating: "─", count: min($0, room)) }
        return [line(titles, layout), line(rules, layout)]
    }

    package func lines(of row: [String], _ layout: Layout, in width: Int?) -> [String] {
        guard let width else { return [line(row, layout)] }
        // A row that came after the layout was made may have a cell that is wider than its column.
        var count = layout.besideEachOther
        var first = line(row.prefix(count), layout)
        while count > 1, first.displayWidth > width {
            count -= 1
            first = line(row.prefix(count), layout)
        }
        let rest = zip(columns, row).dropFirst(count).filter { !$1.isEmpty }.map { "\($0.title): \($1.visibleLine)" }
        let hang = indentation.count + 4
        let more = String(repeating: " ", count: hang) + rest.joined(separator: " · ")
        return TerminalText.wrapped(first, to: width, hang: indentation.count)
            + (rest.isEmpty ? [] : TerminalText.wrapped(more, to: width, hang: hang))
    }

    package static let gap = "  "

    /// A row in one line, whose cells are cut to the widths of their columns.
    package func line(of row: [StyledText], _ layout: Layout) -> StyledText {
        var line = StyledText(indentation)
        for (index, cell) in row.enumerated() {
            if index > 0 { line.append(Self.gap) }
            let cell = cell.fitted(to: layout.widths[index])
            let padding = StyledText(String(repeating: " ", count: layout.widths[index] - cell.width))
            let isLast = index == row.count - 1
            switch columns[index].alignment {
            case .left: line = line + cell + (isLast ? StyledText() : padding)
            case .right: line = line + padding + cell
            }
        }
        return line
    }

    private func line(_ cells: some Sequence<String>, _ layout: Layout) -> String {
        var text = indentation
        for (index, cell) in cells.enumerated() {
            text += index == 0 ? "" : Self.gap
            text += cell.visibleLine.padded(to: layout.widths[index], columns[index].alignment)
        }
        while text.utf8.last == UInt8(ascii: " ") { text.removeLast() }
        return text
    }
}

/// Writes rows to standard output as they are appended. The columns have the widths that the first rows need, so a later cell may be
/// wider than its column.
package struct StreamedTable {
    /// The number of rows that determine the widths.
    private static let firstRows = 500

    private var table: TextTable
    private let textWhenEmpty: String
    /// nil until the header is written.
    private var layout: TextTable.Layout?
    private var buffer = LineBuffer()
    package private(set) var isEmpty = true
    private var hasEnded = false

    package init(columns: [(title: String, alignment: TextTable.Alignment)], orWhenEmpty text: String) {
        table = TextTable(columns: columns)
        textWhenEmpty = text
    }

    package mutating func append(_ row: [String]) {
        isEmpty = false
        table.rows.append(row)
        if layout != nil || table.rows.count >= Self.firstRows { writeRows() }
    }

    private mutating func writeRows() {
        for line in table.styledLines(continuing: &layout, in: Terminal.width) { buffer.append(line) }
        table.rows = []
    }

    /// Writes the remaining rows. No rows may be appended afterwards.
    package mutating func end() {
        if hasEnded { return }
        hasEnded = true
        if layout == nil { writeRows() }
        if isEmpty { buffer.append(StyledText(textWhenEmpty)) }
        buffer.flush()
    }
}

/// Lines that are written to standard output, many at a time.
package struct LineBuffer {
    private static let size = 64 << 10
    private var text = ""

    package init() {}

    /// - parameter line: a line without its line end. It is fitted to the terminal.
    package mutating func append(_ line: StyledText) {
        append(raw: Terminal.isInteractive ? Terminal.dressed([line]) : line.plainText + "\n")
    }

    package mutating func append(raw more: String) {
        text += more
        if text.utf8.count >= Self.size { flush() }
    }

    package mutating func flush() {
        if !text.isEmpty { Terminal.write(text) }
        text = ""
    }
}
