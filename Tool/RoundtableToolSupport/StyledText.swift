import Foundation
import Roundtable

/// The meaning of a part of a text, which a terminal shows as a colour.
package enum TextStyle: Equatable, Sendable {
    case plain, title, dim, good, warning, bad, selected

    /// The number of the control sequence SGR (ECMA-48) that begins the style.
    fileprivate var code: String? {
        switch self {
        case .plain: nil
        case .title: "1"
        case .dim: "2"
        case .good: "32"
        case .warning: "33"
        case .bad: "31"
        case .selected: "7"
        }
    }

    /// The style of a text about something of this severity.
    package init(_ severity: SharedDatabase.Severity) {
        switch severity {
        case .info, .notice: self = .plain
        case .warning: self = .warning
        case .error: self = .bad
        }
    }
}

/// One line of text in parts that each have a style.
package struct StyledText: Equatable, Sendable, ExpressibleByStringLiteral {
    package struct Part: Equatable, Sendable {
        package var text: String
        package var style: TextStyle
    }

    private(set) var parts: [Part] = []

    package init(_ text: String = "", _ style: TextStyle = .plain) { append(text, style) }
    package init(stringLiteral text: String) { self.init(text) }

    package mutating func append(_ text: String, _ style: TextStyle = .plain) {
        if !text.isEmpty { parts.append(Part(text: text.visibleLine, style: style)) }
    }

    package static func + (left: StyledText, right: StyledText) -> StyledText {
        var sum = left
        sum.parts += right.parts
        return sum
    }

    package var firstStyle: TextStyle { parts.first?.style ?? .plain }

    /// The number of terminal columns.
    package var width: Int { parts.reduce(0) { $0 + $1.text.displayWidth } }
    package var plainText: String { parts.map(\.text).joined() }

    /// The text in at most `width` columns. An ellipsis replaces what does not fit.
    package func fitted(to width: Int) -> StyledText {
        guard self.width > width else { return self }
        var fitted = StyledText()
        var rest = width - 1
        for part in parts {
            let text = part.text.prefix(columns: rest)
            fitted.append(text, part.style)
            rest -= text.displayWidth
            if text.count < part.text.count {
                if width > 0 { fitted.append("…", part.style) }
                break
            }
        }
        return fitted
    }

    /// The words in lines of at most `width` columns. Only a word that is wider than a line is cut.
    package func wrapped(to width: Int) -> [StyledText] {
        var lines: [StyledText] = []
        var (line, word) = (StyledText(), StyledText())
        func endWord() {
            guard !word.parts.isEmpty else { return }
            if !line.parts.isEmpty, line.width + 1 + word.width > width {
                lines.append(line.joined)
                line = StyledText()
            }
            if !line.parts.isEmpty { line.append(" ", word.parts[0].style) }
            line = line + word.fitted(to: width)
            word = StyledText()
        }
        for part in parts {
            for (index, piece) in part.text.split(separator: " ", omittingEmptySubsequences: false).enumerated() {
                if index > 0 { endWord() }
                word.append(String(piece), part.style)
            }
        }
        endWord()
        return lines + (line.parts.isEmpty && !lines.isEmpty ? [] : [line.joined])
    }

    /// The text with neighbouring parts of one style as one part.
    package var joined: StyledText {
        var joined = StyledText()
        for part in parts {
            if let last = joined.parts.last, last.style == part.style {
                joined.parts[joined.parts.count - 1].text += part.text
            } else {
                joined.parts.append(part)
            }
        }
        return joined
    }

    package func padded(to width: Int) -> StyledText {
        self + StyledText(String(repeating: " ", count: max(0, width - self.width)))
    }

    /// The text, with control sequences for the styles if `isColoured`.
    package func text(isColoured: Bool) -> String {
        guard isColoured else { return plainText }
        return parts.map { part in
            part.style.code.map { "\u{1B}[\($0)m\(part.text)\u{1B}[0m" } ?? part.text
        }.joined()
    }
}

extension [StyledText] {
    /// The lines without styles, each with its end.
    package var plainText: String { map { $0.plainText + "\n" }.joined() }
}

extension String {
    package func fitted(to columns: Int) -> String { StyledText(self).fitted(to: columns).plainText }
}
