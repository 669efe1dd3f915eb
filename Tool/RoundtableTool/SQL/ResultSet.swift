import Foundation
import GRDB
import Roundtable
import RoundtableKernel
import RoundtableToolSupport

/// The rows that a statement returned.
struct ResultSet {
    var columns: [String]
    var rows: StoredRows
}

// MARK: - For people

extension ResultSet {
    /// Calls `put` with the lines of a table. In a terminal, NULL is dim, and cells are cut so that a row is a line; if there are too many
    /// columns for that, each column is a line.
    ///
    /// - Parameters:
    ///   - width: the columns of the terminal; nil: any number.
    ///   - isColoured: whether NULL has a style.
    func writeText(width: Int?, isColoured: Bool = false, _ put: (String) throws -> Void) throws {
        let (table, whole) = try layout()
        guard let layout = width.map({ Self.fitted(whole, to: $0) }) ?? whole else {
            return try writeColumnLines { try put(TerminalText.fitted($0, to: width)) }
        }
        for line in table.header(layout, in: nil, isCut: true) { try put(line + "\n") }
        try rows.forEach { row in
            try put(table.line(of: row.map(\.styled), layout).text(isColoured: isColoured) + "\n")
        }
        if rows.isEmpty { try put("(no rows)\n") }
        if layout != whole { try put(StyledText(Self.hint, .dim).text(isColoured: isColoured) + "\n") }
    }

    private static let hint = "(… is cut: --line shows all)"
    /// A column is not cut to fewer characters.
    private static let narrowest = 8

    /// The layout with its widest columns cut; nil if the columns do not fit beside each other.
    private static func fitted(_ layout: TextTable.Layout, to width: Int) -> TextTable.Layout? {
        var widths = layout.widths
        var excess = widths.reduce(0, +) + TextTable.gap.count * max(0, widths.count - 1) - width
        while excess > 0 {
            guard let widest = widths.max(), widest > narrowest else { return nil }
            let next = max(narrowest, widths.filter { $0 < widest }.max() ?? narrowest)
            let places = widths.indices.filter { widths[$0] == widest }
            let cut = min((widest - next) * places.count, excess)
            for (index, place) in places.enumerated() {
                widths[place] -= cut / places.count + (index < cut % places.count ? 1 : 0)
            }
            excess -= cut
        }
        return TextTable.Layout(widths: widths, besideEachOther: layout.besideEachOther)
    }

    /// Calls `put` with each row as lines `column = value`, with an empty line between two rows.
    func writeColumnLines(_ put: (String) throws -> Void) throws {
        let names = columns.map(\.visible)
        let width = names.map(\.displayWidth).max() ?? 0
        if rows.isEmpty { try put("(no rows)\n") }
        var isFirst = true
        try rows.forEach { row in
            let lines = zip(names, row).map { "\($0.padded(to: width, .right)) = \($1.visible)\n" }.joined()
            try put((isFirst ? "" : "\n") + lines)
            isFirst = false
        }
    }

    /// A table without rows, and the layout that all rows need. Columns of numbers are aligned to the right.
    private func layout() throws -> (TextTable, TextTable.Layout) {
        let titles = columns.map(\.visible)
        var widths = titles.map(\.displayWidth)
        var hasNumbers = columns.map { _ in false }
        var hasOthers = hasNumbers
        try rows.forEach { row in
            for (index, value) in row.enumerated() {
                widths[index] = max(widths[index], value.visible.visibleLine.displayWidth)
                switch value.storage {
                case .null: break
                case .int64, .double: hasNumbers[index] = true
                case .string, .blob: hasOthers[index] = true
                }
            }
        }
        let table = TextTable(
            columns: columns.indices.map { (titles[$0], hasNumbers[$0] && !hasOthers[$0] ? .right : .left) }
        )
        return (table, TextTable.Layout(widths: widths, besideEachOther: columns.count))
    }
}

extension DatabaseValue {
    /// The value as an SQL literal, except that text has no quotes unless it is empty or could be mistaken for another kind of value.
    var visible: String {
        switch storage {
        case .null: return "NULL"
        case .int64(let value): return "\(value)"
        case .double(let value): return "\(value)"
        case .string(let text):
            let visible = text.visible
            let looksLikeOther =
                text.isEmpty || text == "NULL" || text.lowercased().hasPrefix("x'") || text.hasPrefix("'")
            return looksLikeOther ? "'\(visible)'" : visible
        case .blob(let data):
            let limit = 16
            let hexadecimal = data.prefix(limit).map { String(format: "%02x", $0) }.joined()
            return data.count <= limit ? "x'\(hexadecimal)'" : "x'\(hexadecimal)…' (\(data.count.grouped) bytes)"
        }
    }
}

extension DatabaseValue {
    fileprivate var styled: StyledText { StyledText(visible, isNull ? .dim : .plain) }
}

extension String {
    /// The text with visible control characters and direction marks, because they would break the columns or control the terminal.
    fileprivate var visible: String {
        guard unicodeScalars.contains(where: \.controlsText) else { return self }
        return unicodeScalars.reduce(into: "") { text, scalar in
            if scalar.controlsText { text += scalar.escape } else { text.unicodeScalars.append(scalar) }
        }
    }
}

// MARK: - For programs

extension ResultSet {
    /// Calls `put` with comma-separated values: a header (<https://www.rfc-editor.org/rfc/rfc4180>) and the rows, each a line that ends
    /// with a line feed.
    ///
    /// - parameter isForPeople: whether control characters in texts become visible, because a terminal would obey them.
    func writeCSV(isForPeople: Bool, _ put: (String) throws -> Void) throws {
        try put(columns.map { $0.csv(isForPeople) }.joined(separator: ",") + "\n")
        try rows.forEach { row in try put(row.map { $0.csv(isForPeople) }.joined(separator: ",") + "\n") }
    }

    /// Calls `put` with one JSON object for each row, each on its own line, with its keys in the order of the columns.
    func writeJSONLines(_ put: (String) throws -> Void) throws {
        let keys = Self.distinct(columns).map(\.json)
        try rows.forEach { row in
            try put("{" + zip(keys, row).map { "\($0):\($1.json)" }.joined(separator: ",") + "}\n")
        }
    }

    /// Numbers the columns that have the same name, because the keys of a JSON object must be unique.
    private static func distinct(_ columns: [String]) -> [String] {
        var seen: Set<String> = []
        return columns.map { column in
            var name = column
            var number = 2
            while !seen.insert(name).inserted {
                name = "\(column)_\(number)"
                number += 1
            }
            return name
        }
    }
}

extension DatabaseValue {
    /// The value as a field. NULL is empty, and a BLOB is an SQL literal.
    fileprivate func csv(_ isForPeople: Bool) -> String {
        switch storage {
        case .null: ""
        case .int64(let value): "\(value)"
        case .double(let value): "\(value)"
        case .string(let text): text.csv(isForPeople)
        case .blob(let data): "x'\(data.map { String(format: "%02x", $0) }.joined())'"
        }
    }

    /// The value as JSON. A BLOB is an object with its bytes in Base64. JSON has no infinity, but parsers read `1e999` as one.
    fileprivate var json: String {
        switch storage {
        case .null: "null"
        case .int64(let value): "\(value)"
        case .double(let value): value.isInfinite ? (value < 0 ? "-1e999" : "1e999") : "\(value)"
        case .string(let text): text.json
        case .blob(let data): "{\"base64\":\"\(data.base64EncodedString())\"}"
        }
    }
}

extension String {
    fileprivate var json: String {
        var text = "\""
        for scalar in unicodeScalars {
            switch scalar {
            case "\"": text += "\\\""
            case "\\": text += "\\\\"
            case _ where scalar.controlsText: text += scalar.escape
            default: text.unicodeScalars.append(scalar)
            }
        }
        return text + "\""
    }
}

extension String {
    /// The text as a field. An empty text has quotes, which distinguish it from NULL.
    fileprivate func csv(_ isForPeople: Bool) -> String {
        if isForPeople { return visible.csv(false) }
        // Unicode scalars, because a carriage return and a line feed are one character.
        let isPlain = !isEmpty && !unicodeScalars.contains { ["\"", ",", "\n", "\r"].contains($0) }
        // Literally, because a quote with a combining accent is one character, too.
        return isPlain ? self : "\"" + replacingOccurrences(of: "\"", with: "\"\"", options: .literal) + "\""
    }
}
