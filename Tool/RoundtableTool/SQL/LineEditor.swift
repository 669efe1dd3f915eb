import RoundtableToolSupport

/// A line that is being typed, with its history and completion. It is pure: keys come in, and the line goes out.
struct LineEditor {
    enum Outcome: Equatable {
        case editing
        /// The line is complete.
        case line(String)
        /// The line was given up (Ctrl-C).
        case cancelled
        /// There are no more lines (Ctrl-D in an empty line).
        case end
        /// Several words can complete the one before the cursor.
        case choices([String])
        /// Ctrl-Z.
        case stop
        /// Ctrl-L.
        case clear
    }

    private(set) var text: [Character] = []
    private(set) var cursor = 0
    private(set) var history: [String]
    /// The place in the history; its end is the line that is being typed.
    private var place: Int
    private var typed: [Character] = []
    private let complete: (String) -> [String]

    /// - parameter complete: the words that begin with a text, which may begin with a quote; those then have it at both ends.
    init(history: [String] = [], complete: @escaping (String) -> [String] = { _ in [] }) {
        self.history = history
        self.complete = complete
        place = history.count
    }

    mutating func handle(_ key: TerminalKey) -> Outcome {
        switch key {
        case .character(let character):
            text.insert(character, at: cursor)
            cursor += 1
        case .backspace where cursor > 0, .control("h") where cursor > 0:
            cursor -= 1
            text.remove(at: cursor)
        case .delete where cursor < text.count: text.remove(at: cursor)
        case .control("d"):
            if text.isEmpty { return .end }
            if cursor < text.count { text.remove(at: cursor) }
        case .left, .control("b"): cursor = max(0, cursor - 1)
        case .right, .control("f"): cursor = min(text.count, cursor + 1)
        case .home, .control("a"): cursor = 0
        case .end, .control("e"): cursor = text.count
        case .control("k"): text.removeSubrange(cursor...)
        case .control("u"):
            text.removeSubrange(..<cursor)
            cursor = 0
        case .control("w"): deleteWord()
        case .up, .control("p"): go(to: place - 1)
        case .down, .control("n"): go(to: place + 1)
        case .tab: return completed()
        case .enter: return .line(take())
        case .control("c"):
            _ = take(isKept: false)
            return .cancelled
        case .control("z"): return .stop
        case .control("l"): return .clear
        default: break
        }
        return .editing
    }

    /// The line as it is, and an empty one from then on.
    private mutating func take(isKept: Bool = true) -> String {
        let line = String(text)
        if isKept, !line.allSatisfy(\.isWhitespace), history.last != line { history.append(line) }
        (text, cursor, place, typed) = ([], 0, history.count, [])
        return line
    }

    private mutating func go(to new: Int) {
        guard new >= 0, new <= history.count, new != place else { return }
        if place == history.count { typed = text }
        place = new
        text = new == history.count ? typed : Array(history[new])
        cursor = text.count
    }

    private mutating func deleteWord() {
        let end = cursor
        while cursor > 0, text[cursor - 1].isWhitespace { cursor -= 1 }
        while cursor > 0, !text[cursor - 1].isWhitespace { cursor -= 1 }
        text.removeSubrange(cursor..<end)
    }

    // MARK: Drawing

    /// The line as a terminal shows it in one row, and the column of the cursor in it. Of a longer line, it is the part around the cursor.
    ///
    /// The line may have control characters, because a completed name or the file of the history has them. Each has a dot, which takes its
    /// column.
    func row(columns room: Int) -> (text: String, cursor: Int) {
        var (start, columns) = (cursor, 0)
        while start > 0 {
            let wide = text[start - 1].displayWidth
            guard columns + wide < room else { break }
            columns += wide
            start -= 1
        }
        return (String(text[start...]).visibleLine.prefix(columns: room), columns)
    }

    // MARK: Completion

    private mutating func completed() -> Outcome {
        let quote = openQuote
        var start = quote ?? cursor
        while quote == nil, start > 0, Self.isPartOfWord(text[start - 1]) { start -= 1 }
        let word = String(text[start..<cursor])
        guard !word.isEmpty else { return .editing }
        let choices = complete(word)
        guard let first = choices.first else { return .editing }
        let common = choices.dropFirst().reduce(first) { $0.commonPrefix(ignoringCase: $1) }
        if common.count >= word.count, choices.count == 1 || common.count > word.count {
            text.replaceSubrange(start..<cursor, with: common)
            cursor = start + common.count
            // The quote was closed before the name was complete.
            if choices.count == 1, quote != nil, cursor < text.count, text[cursor] == first.last {
                text.remove(at: cursor)
            }
        }
        return choices.count == 1 || common.count > word.count ? .editing : .choices(choices)
    }

    static let quotes: Set<Character> = ["\"", "'", "`"]

    /// Where the name or string begins that the cursor is in; nil when it is in none.
    private var openQuote: Int? {
        var open: Int?
        for (index, character) in text[..<cursor].enumerated() {
            if let begin = open {
                // A quote in a name is written twice, which ends it and begins it again.
                if character == text[begin] { open = nil }
            } else if Self.quotes.contains(character) {
                open = index
            }
        }
        return open
    }

    private static func isPartOfWord(_ character: Character) -> Bool {
        character.isLetter || character.isNumber || character == "_" || character == "."
    }
}

extension String {
    fileprivate func commonPrefix(ignoringCase other: String) -> String {
        var end = startIndex
        for (mine, others) in zip(self, other) {
            guard mine.lowercased() == others.lowercased() else { break }
            end = index(after: end)
        }
        return String(self[..<end])
    }
}
