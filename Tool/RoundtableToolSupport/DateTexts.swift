import Foundation

/// Formats dates, and reuses the text of the last date, because many dates are in the same second.
package struct DateTexts {
    private var last: (second: Double, text: String)?

    package init() {}

    package mutating func text(_ date: Date) -> String {
        let second = date.timeIntervalSince1970.rounded(.down)
        if let last, last.second == second { return last.text }
        let text = date.formatted(.iso8601)
        last = (second, text)
        return text
    }
}
