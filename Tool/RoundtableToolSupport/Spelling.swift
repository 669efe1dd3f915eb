/// Finds the word that a misspelt one was probably meant to be.
package enum Spelling {
    /// - returns: nil when no word is near.
    package static func nearest(to word: String, among words: [String]) -> String? {
        let word = word.lowercased()
        let distances = words.map { (word: $0, distance: distance(word, $0)) }
        // A short word is near to any other short word.
        let limit = min(2, word.count / 2)
        return distances.filter { $0.distance <= limit }.min { $0.distance < $1.distance }?.word
            ?? words.first { word.count >= 3 && $0.hasPrefix(word) }
    }

    /// A message of ArgumentParser without its hint, if that names an option that is not near: `--colour` is not `--folder`.
    package static func keepingNearHints(_ message: String) -> String {
        guard let hint = message.firstMatch(of: /^(Unknown option '-*(.+)')\. Did you mean '-*(.+)'\?$/),
            nearest(to: String(hint.2), among: [String(hint.3)]) == nil
        else { return message }
        return String(hint.1)
    }

    /// The number of characters to insert, delete, replace or swap with their neighbours
    /// (<https://en.wikipedia.org/wiki/Damerau–Levenshtein_distance>, optimal string alignment).
    package static func distance(_ left: String, _ right: String) -> Int {
        let (left, right) = (Array(left), Array(right))
        var rows = [Array(0...right.count)]
        for i in left.indices {
            var row = [i + 1]
            for j in right.indices {
                var best = min(rows[i][j + 1] + 1, row[j] + 1, rows[i][j] + (left[i] == right[j] ? 0 : 1))
                if i > 0, j > 0, left[i] == right[j - 1], left[i - 1] == right[j] {
                    best = min(best, rows[i - 1][j - 1] + 1)
                }
                row.append(best)
            }
            rows.append(row)
        }
        return rows[left.count][right.count]
    }
}
