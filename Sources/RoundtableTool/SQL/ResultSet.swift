import Foundation
import GRDB
import RoundtableKernel

/// The rows that a statement returned.
struct ResultSet: Equatable, Sendable {
    var columns: [String]
    var rows: [[DatabaseValue]]
}

// MARK: - For people

extension ResultSet {
    /// A table; or one column a line, if the table is wider than `width`.
    ///
    /// - parameter width: the columns of the terminal; nil: any number.
    func text(width: Int?) -> String {
        let table = text
        guard let width, !rows.isEmpty,
            table.split(separator: "\n").contains(where: { String($0).displayWidth > width })
        else {
            return table
        }
        return TerminalText.fitted(columnLines, to: width, isColoured: false)
    }

    /// Each row as lines `column = value`, with an empty line between two rows.
    var columnLines: String {
        var text = ""
        writeColumnLines { text += $0 }
        return text
    }

    /// Calls `put` with the parts of `columnLines`, so that the whole text need not be in memory.
    func writeColumnLines(_ put: (String) throws -> Void) rethrows {
        let names = columns.map(\.visible)
        let width = names.map(\.displayWidth).max() ?? 0
        if rows.isEmpty { try put("(no rows)\n") }
        for (index, row) in rows.enumerated() {
            let lines = zip(names, row).map { "\($0.padded(to: width, .right)) = \($1.visible)\n" }.joined()
            try put((index > 0 ? "\n" : "") + lines)
        }
    }

    var text: String {
        let isNumeric = columns.indices.map { index in
            let values = rows.map { $0[index] }.filter { !$0.isNull }
            return !values.isEmpty
                && values.allSatisfy {
                    switch $0.storage {
                    case .int64, .double: true
                    default: false
                    }
                }
        }
        var table = TextTable(columns: zip(columns, isNumeric).map { ($0.visible, $1 ? .right : .left) })
        table.rows = rows.map { $0.map(\.visible) }
        return (table.lines + (rows.isEmpty ? ["(no rows)"] : [])).map { $0 + "\n" }.joined()
    }
}

extension DatabaseValue {
    /// The value as an SQL literal, except that text has no quotes unless it could be mistaken for another kind of value.
    var visible: String {
        switch storage {
        case .null: return "NULL"
        case .int64(let value): return "\(value)"
        case .double(let value): return "\(value)"
        case .string(let text):
            let visible = text.visible
            let looksLikeOther = text == "NULL" || text.lowercased().hasPrefix("x'") || text.hasPrefix("'")
            return looksLikeOther ? "'\(visible)'" : visible
        case .blob(let data):
            let limit = 16
            let hexadecimal = data.prefix(limit).map { String(format: "%02x", $0) }.joined()
            return data.count <= limit ? "x'\(hexadecimal)'" : "x'\(hexadecimal)…' (\(data.count.grouped) bytes)"
        }
    }
}

extension String {
    /// The text with visible control characters and direction marks, because they would break the columns or control the terminal.
    fileprivate var visible: String {
        guard unicodeScalars.contains(where: \.controlsText) else { return self }
        return unicodeScalars.reduce(into: "") { text, scalar in
            switch scalar {
            case "\n": text += "\\n"
            case "\r": text += "\\r"
            case "\t": text += "\\t"
            case _ where scalar.controlsText:
                text += String(format: "\\u%04x", scalar.value)
            default: text.unicodeScalars.append(scalar)
            }
        }
    }
}

// MARK: - For programs

extension ResultSet {
    /// Calls `put` with comma-separated values: a header (<https://www.rfc-editor.org/rfc/rfc4180>) and the rows, each a line that ends
    /// with a line feed.
    ///
    /// - parameter isForPeople: whether control characters in texts become visible, because a terminal would obey them.
    func writeCSV(isForPeople: Bool, _ put: (String) throws -> Void) rethrows {
        try put(columns.map { $0.csv(isForPeople) }.joined(separator: ",") + "\n")
        for row in rows { try put(row.map { $0.csv(isForPeople) }.joined(separator: ",") + "\n") }
    }

    /// Calls `put` with one JSON object for each row, each on its own line, with its keys in the order of the columns.
    func writeJSONLines(_ put: (String) throws -> Void) rethrows {
        let keys = Self.distinct(columns).map(\.json)
        for row in rows {
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
            case "\n": text += "\\n"
            case "\r": text += "\\r"
            case "\t": text += "\\t"
            case _ where scalar.controlsText: text += String(format: "\\u%04x", scalar.value)
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
