import Foundation

/// A moment, in milliseconds, as Litestream records it.
struct RestoreTime: Comparable, Sendable {
    /// Milliseconds since 1970.
    let milliseconds: Int64

    init(milliseconds: Int64) { self.milliseconds = milliseconds }

    /// - parameter text: a time of ISO 8601 with an offset: `2026-11-23T17:29:21.381Z`, `2026-11-23 18:29+01:00`. Digits beyond
    ///   milliseconds are cut off.
    init?(_ text: String) {
        let pattern =
            /^(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(?:([Zz])|([+-])(\d\d):?(\d\d))$/
            .asciiOnlyDigits()
        guard let match = text.wholeMatch(of: pattern) else { return nil }
        func number(_ text: Substring?) -> Int { text.flatMap { Int($0) } ?? 0 }
        var parts = DateComponents()
        parts.calendar = Self.calendar
        (parts.year, parts.month, parts.day) = (number(match.1), number(match.2), number(match.3))
        (parts.hour, parts.minute, parts.second) = (number(match.4), number(match.5), number(match.6))
        let (hours, minutes) = (number(match.10), number(match.11))
        guard parts.isValidDate, hours < 24, minutes < 60, let date = parts.date else { return nil }
        let offset = Int64(hours * 3600 + minutes * 60) * (match.9 == "-" ? -1 : 1)
        let fraction = ((match.7.map(String.init) ?? "") + "000").prefix(3)
        milliseconds = (Int64(date.timeIntervalSince1970) - offset) * 1000 + Int64(number(fraction))
    }

    private static let calendar: Calendar = {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = TimeZone(secondsFromGMT: 0)!
        return calendar
    }()

    /// The time in UTC, as `2026-11-23T17:29:21.381Z`.
    var text: String {
        let second = (Double(milliseconds) / 1000).rounded(.down)
        let rest = milliseconds - Int64(second) * 1000
        let text = Date(timeIntervalSince1970: second).formatted(.iso8601)
        return "\(text.dropLast()).\(String(format: "%03d", Int(rest)))Z"
    }

    /// The first millisecond after this one.
    var next: RestoreTime { RestoreTime(milliseconds: milliseconds + 1) }

    static func < (left: Self, right: Self) -> Bool { left.milliseconds < right.milliseconds }
}
