import Foundation

/// The parts of a CREATE INDEX statement, as they are written. SQLite tells the names of indexed columns, but not their
/// expressions and conditions.
struct IndexDefinition: Equatable {
    /// What is indexed: `lower(name)`, `score DESC`.
    private(set) var terms: [String] = []
    /// What follows WHERE.
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

    /// A term without ASC and DESC at its end.
    private static func withoutOrder(_ term: String) -> String {
        let tokens = tokens(term.trimmed[...])
        guard let last = tokens.last, ["ASC", "DESC"].contains(last.uppercased()) else { return term.trimmed }
        return tokens.dropLast().joined().trimmed
    }

    /// Words, spaces, quoted things, and single characters; comments become spaces. Together they are the text.
    static func tokens(_ sql: some StringProtocol) -> [Substring] {
        let text = Substring(sql)
        var tokens: [Substring] = []
        var index = text.startIndex
        while index < text.endIndex {
            let character = text[index]
            var end = text.index(after: index)
            let next = end < text.endIndex ? text[end] : " "
            switch character {
            case "'", "\"", "`", "[":
                let quote: Character = character == "[" ? "]" : character
                // A doubled quote inside ends one token and begins the next, which is as good.
                end = text[end...].firstIndex(of: quote).map(text.index(after:)) ?? text.endIndex
            case "-" where next == "-":
                end = text[end...].firstIndex(where: \.isNewline).map(text.index(after:)) ?? text.endIndex
                tokens.append(" ")
                index = end
                continue
            case "/" where next == "*":
                end = text[end...].range(of: "*/")?.upperBound ?? text.endIndex
                tokens.append(" ")
                index = end
                continue
            case _ where character.isLetter || character.isNumber || character == "_":
                end = text[end...].firstIndex { !($0.isLetter || $0.isNumber || $0 == "_") } ?? text.endIndex
            default: break
            }
            tokens.append(text[index..<end])
            index = end
        }
        return tokens
    }
}

extension String {
    fileprivate var trimmed: String {
        let start = firstIndex { !$0.isWhitespace } ?? endIndex
        let end = lastIndex { !$0.isWhitespace }.map(index(after:)) ?? endIndex
        return start < end ? String(self[start..<end]) : ""
    }
}
