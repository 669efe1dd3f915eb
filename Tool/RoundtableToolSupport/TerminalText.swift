import Foundation

/// Text for people as a terminal shows it: lines that are too long continue indented, and no word is broken.
package enum TerminalText {
    /// The text without a style. Control characters in it are made visible.
    ///
    /// - Parameters:
    ///   - width: the columns of the terminal; nil leaves the lines as they are.
    ///   - hang: the column in which further lines of a line begin; nil: where its value does.
    package static func fitted(_ text: String, to width: Int?, hang: Int? = nil) -> String {
        guard let width else { return text.visibleText }
        var lines = text.components(separatedBy: "\n")
        let endsLine = lines.last == ""
        if endsLine { lines.removeLast() }
        let fitted = lines.flatMap { wrapped($0, to: width, hang: hang) }.map(\.visibleLine)
        return fitted.joined(separator: "\n") + (endsLine ? "\n" : "")
    }

    /// The lines, each with its end. A line that continues has the style of its first part.
    ///
    /// - parameter width: the columns of the terminal; nil leaves the lines as they are.
    package static func fitted(_ lines: [StyledText], to width: Int?, isColoured: Bool) -> String {
        lines.flatMap { line in
            guard let width, line.width > width else { return [line] }
            return wrapped(line.plainText, to: width).map { StyledText($0, line.firstStyle) }
        }.map { $0.text(isColoured: isColoured) + "\n" }.joined()
    }

    // MARK: Wrapping

    /// A terminal of fewer columns is too narrow for ordinary words, and words are cut there.
    private static let narrowest = 20

    /// The line in lines of at most `width` columns. The further ones begin where the value of the first one does.
    ///
    /// A word that is wider than the terminal, such as a path, is the one thing that exceeds `width`. The terminal continues it in the next row, and it can be
    /// copied as a whole. Only a terminal of fewer than 20 columns gets such a word in pieces.
    ///
    /// - parameter hang: the column in which further lines begin; nil: behind the name or the mark of the line.
    package static func wrapped(_ line: String, to width: Int, hang: Int? = nil) -> [String] {
        let line = line.withExpandedTabs
        guard line.displayWidth > width else { return [line] }
        let width = max(1, width)
        let hang = fixedHang(hang, of: line, width) ?? Self.hang(of: line, width)
        let head = line.prefix(columns: hang)
        return WrappedLines(head: head, rest: line.dropFirst(head.count), hang: hang, width: width).lines
    }

    /// The given column, if the line has a space before it, and it leaves half of the terminal.
    private static func fixedHang(_ hang: Int?, of line: String, _ width: Int) -> Int? {
        guard let hang, hang <= width / 2 else { return nil }
        let head = line.prefix(columns: hang)
        return head.displayWidth == hang && (head.isEmpty || head.last == " ") ? hang : nil
    }

    /// The indentation of further lines in columns: behind a name that is followed by two spaces, or behind a mark.
    private static func hang(of line: String, _ width: Int) -> Int {
        let indentation = line.prefix { $0 == " " }.count
        var hang = indentation
        let text = line.dropFirst(indentation)
        if let gap = text.firstRange(of: "  ") {
            let value = text[gap.lowerBound...].drop { $0 == " " }
            hang += String(text[..<value.startIndex]).displayWidth
        } else if let mark = text.first, text.dropFirst().first == " " {
            hang += mark.displayWidth + 1
        }
        // Each line has room for a character of two columns.
        return min(hang <= width / 2 ? hang : min(indentation, width / 2), max(0, width - 2))
    }

    /// The lines of one line that is too long.
    private struct WrappedLines {
        private(set) var lines: [String] = []
        private let hang: Int
        private let width: Int
        /// The line that is not complete yet, and its columns.
        private var line: String
        private var column: Int
        private var hasWord = false

        init(head: String, rest: Substring, hang: Int, width: Int) {
            (self.hang, self.width) = (hang, width)
            (line, column) = (head, head.displayWidth)
            var rest = rest
            while !rest.isEmpty {
                let gap = rest.prefix { $0 == " " }.count
                let word = rest.dropFirst(gap).prefix { $0 != " " }
                rest = rest[word.endIndex...]
                if !word.isEmpty { append(String(word), after: gap) }
            }
            endLine()
        }

        /// - parameter gap: the number of spaces before the word, which are left out where a line ends.
        private mutating func append(_ word: String, after gap: Int) {
            let columns = word.displayWidth
            if hasWord, column + gap + columns <= width {
                line += String(repeating: " ", count: gap) + word
                column += gap + columns
                return
            }
            if hasWord { begin(at: hang) }
            if column + columns <= width {
                put(word, columns)
            } else if width < narrowest {
                cut(word)
            } else {
                // The word fits, if it begins further to the left. The name before it then has a line of its own.
                if columns <= width {
                    if line.allSatisfy({ $0 == " " }) { line = "" }
                    begin(at: width - columns)
                }
                put(word, columns)
            }
        }

        private mutating func put(_ word: String, _ columns: Int) {
            line += word
            column += columns
            hasWord = true
        }

        private mutating func cut(_ word: String) {
            var rest = Substring(word)
            while let first = rest.first {
                var piece = String(rest).prefix(columns: width - column)
                // One character may be wider than the terminal.
                if piece.isEmpty, column <= hang { piece = String(first) }
                if piece.isEmpty {
                    begin(at: hang)
                    continue
                }
                put(piece, piece.displayWidth)
                rest = rest.dropFirst(piece.count)
                if !rest.isEmpty { begin(at: hang) }
            }
        }

        private mutating func begin(at column: Int) {
            if !line.isEmpty { endLine() }
            line = String(repeating: " ", count: column)
            (self.column, hasWord) = (column, false)
        }

        private mutating func endLine() {
            while line.last == " " { line.removeLast() }
            lines.append(line)
        }
    }
}

extension Terminal {
    /// The columns of the terminal; nil when standard output is none.
    package static var width: Int? { isInteractive ? size?.width : nil }

    /// Text for people, as standard output shows it.
    ///
    /// - parameter hang: the column in which further lines of a line begin; nil: where its value does.
    package static func dressed(_ text: String, hang: Int? = nil) -> String {
        TerminalText.fitted(text, to: width, hang: hang)
    }

    /// Lines for people, as standard output shows them, each with its end.
    package static func dressed(_ lines: [StyledText]) -> String {
        TerminalText.fitted(lines, to: width, isColoured: showsColours)
    }
}
