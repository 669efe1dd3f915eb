import Foundation

/// The parts of a CREATE INDEX statement, as they are written. SQLite reports the names of indexed columns, but not their expressions and
/// conditions.
package struct IndexDefinition: Equatable {
    /// The indexed terms, without ASC and DESC: `lower(name)`, `score`.
    private(set) var terms: [String] = []
    /// The condition after WHERE.
    private(set) var condition: String?

    init(_ sql: String) {
        var depth = 0
        var term = ""
        var isListOver = false
        var rest: [Substring] = []
        for token in Self.tokens(sql) {
            if isListOver {
                rest.append(token)
                continue
            }
            switch token {
            case "(":
                depth += 1
                if depth == 1 { continue }
            case ")":
                depth -= 1
                if depth == 0 {
                    terms.append(Self.withoutOrder(term))
                    isListOver = true
                    continue
                }
            case "," where depth == 1:
                terms.append(Self.withoutOrder(term))
                term = ""
                continue
            default: break
            }
            if depth > 0 { term += token }
        }
        if let start = rest.firstIndex(where: { $0.uppercased() == "WHERE" }) {
            condition = rest[(start + 1)...].joined().trimmed
        }
    }

    /// Returns a term without ASC or DESC at its end.
    private static func withoutOrder(_ term: String) -> String {
        let tokens = tokens(term.trimmed[...])
        guard let last = tokens.last, ["ASC", "DESC"].contains(last.uppercased()) else { return term.trimmed }
        return tokens.dropLast().joined().trimmed
    }

    /// Returns all names that pieces of SQL may contain, in lowercase and without quotes. Other words are included.
    package static func names(in texts: [String]) -> Set<String> {
        Set(texts.flatMap { tokens($0).map(unquoted) })
    }

    /// Returns all names that the expressions of a table's generated columns may contain, in lowercase and without quotes.
    static func namesInGeneratedColumns(ofTable sql: String) -> Set<String> {
        let words = tokens(sql).filter { !isSpace($0) }
        var names: Set<String> = []
        var depth = 0
        for index in words.indices.dropFirst() {
            switch words[index] {
            // In CREATE TABLE, only a generated column has a parenthesis after AS.
            case "(" where depth > 0 || words[index - 1].uppercased() == "AS": depth += 1
            case ")" where depth > 0: depth -= 1
            default: if depth > 0 { names.insert(unquoted(words[index])) }
            }
        }
        return names
    }

    private static func unquoted(_ token: Substring) -> String { content(token).lowercased() }

    /// Returns the content of a quoted token, and any other token as it is.
    package static func content(_ token: Substring) -> String {
        guard let quote = token.unicodeScalars.first, "\"`['".unicodeScalars.contains(quote) else {
            return String(token)
        }
        var content = String.UnicodeScalarView()
        var isSecondQuote = false
        for scalar in token.unicodeScalars.dropFirst().dropLast() {
            isSecondQuote = scalar == quote && !isSecondQuote && quote != "["
            if !isSecondQuote { content.append(scalar) }
        }
        return String(content)
    }

    /// Whether a token consists of SQLite's space characters. Other spaces are parts of words.
    package static func isSpace(_ token: some StringProtocol) -> Bool {
        token.unicodeScalars.allSatisfy { " \t\n\r\u{C}".unicodeScalars.contains($0) }
    }

    /// Splits SQL into words, spaces, quoted tokens and single characters, as SQLite does. `a$b` is a word, and all characters that are not
    /// ASCII are parts of words. Comments become spaces. Apart from that, the joined tokens are the text.
    package static func tokens(_ sql: some StringProtocol) -> [Substring] {
        let text = Substring(sql)
        // The text is split by Unicode scalars, because a quote with a combining accent is one Character.
        let scalars = text.unicodeScalars
        var tokens: [Substring] = []
        var index = scalars.startIndex
        while index < scalars.endIndex {
            let scalar = scalars[index]
            var end = scalars.index(after: index)
            let next = end < scalars.endIndex ? scalars[end] : " "
            switch scalar {
            case "'", "\"", "`", "[":
                end = endOfQuoted(scalars, from: end, scalar)
            case "-" where next == "-":
                end = scalars[end...].firstIndex(of: "\n").map(scalars.index(after:)) ?? scalars.endIndex
                tokens.append(" ")
                index = end
                continue
            case "/" where next == "*":
                let rest = text[scalars.index(after: end)...]
                end = rest.range(of: "*/", options: .literal)?.upperBound ?? scalars.endIndex
                tokens.append(" ")
                index = end
                continue
            case _ where isOfWord(scalar):
                end = scalars[end...].firstIndex { !isOfWord($0) } ?? scalars.endIndex
            default: break
            }
            tokens.append(text[index..<end])
            index = end
        }
        return tokens
    }

    private static func isOfWord(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "a"..."z", "A"..."Z", "0"..."9", "_", "$": true
        default: !scalar.isASCII
        }
    }

    /// Returns the index after the closing quote. A doubled quote is part of the content.
    private static func endOfQuoted(
        _ scalars: Substring.UnicodeScalarView,
        from start: Substring.Index,
        _ open: Unicode.Scalar
    ) -> Substring.Index {
        let quote = open == "[" ? "]" : open
        var index = start
        while let found = scalars[index...].firstIndex(of: quote) {
            index = scalars.index(after: found)
            if open == "[" || index == scalars.endIndex || scalars[index] != quote { return index }
            index = scalars.index(after: index)
        }
        return scalars.endIndex
    }
}

extension String {
    fileprivate var trimmed: String {
        let start = firstIndex { !$0.isWhitespace } ?? endIndex
        let end = lastIndex { !$0.isWhitespace }.map(index(after:)) ?? endIndex
        return start < end ? String(self[start..<end]) : ""
    }
}
