import Foundation

/// Text for people as a terminal shows it: lines that are too long continue indented, no word is broken, and marks have colours.
enum TerminalText {
    /// - parameter width: the columns of the terminal; nil leaves the lines as they are.
    static func fitted(_ text: String, to width: Int?, isColoured: Bool) -> String {
        var lines = text.components(separatedBy: "\n")
        let endsLine = lines.last == ""
        if endsLine { lines.removeLast() }
        let fitted = lines.flatMap { line in
            let style = style(of: line)
            return (width.map { wrapped(line, to: $0) } ?? [line]).map {
                StyledText($0, style).text(isColoured: isColoured)
            }
        }
        return fitted.joined(separator: "\n") + (endsLine ? "\n" : "")
    }

    private static func style(of line: String) -> TextStyle {
        let text = line.drop { $0 == " " }
        if text.hasPrefix("! ") { return .warning }
        if text.hasPrefix("✗ ") { return .bad }
        if text.hasPrefix("✓ ") { return .good }
        if !text.isEmpty, text.allSatisfy({ $0 == "─" || $0 == " " }) { return .dim }
        return .plain
    }

    /// The line in lines of at most `width` columns. The further ones begin where the value of the first one does.
    static func wrapped(_ line: String, to width: Int) -> [String] {
        guard line.displayWidth > width else { return [line] }
        let hang = hang(of: line, width)
        let rest = String(line.dropFirst(hang)).wrapped(to: max(1, width - hang))
        return rest.enumerated().map { index, text in
            (index == 0 ? String(line.prefix(hang)) : String(repeating: " ", count: hang)) + text
        }
    }

    /// The indentation of further lines: behind a name that is followed by two spaces, or behind a mark.
    private static func hang(of line: String, _ width: Int) -> Int {
        let characters = Array(line)
        let indentation = characters.prefix { $0 == " " }.count
        var hang = indentation
        var index = indentation
        while index + 1 < characters.count {
            if characters[index] == " ", characters[index + 1] == " " {
                while index < characters.count, characters[index] == " " { index += 1 }
                hang = index
                break
            }
            index += 1
        }
        if hang == indentation, indentation + 1 < characters.count, characters[indentation + 1] == " " {
            hang = indentation + 2
        }
        return hang <= width / 2 ? hang : min(indentation, width / 2)
    }
}

extension Terminal {
    /// The columns of the terminal; nil when standard output is none.
    static var width: Int? { isInteractive ? size?.width : nil }

    /// Text for people, as standard output shows it.
    static func dressed(_ text: String) -> String {
        TerminalText.fitted(text, to: width, isColoured: showsColours)
    }
}
