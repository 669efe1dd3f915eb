import Foundation
import RoundtableKernel

// These are numbers formatted for people, in messages and in the tool. Output for programs does not use them.

extension Int {
    /// The whole number that is nearest to `value`: `Int.max` or `Int.min` if that does not fit, and 0 for NaN. Rates may be those of numbers that
    /// another process has damaged in the control block.
    package init(nearest value: Double) {
        self = Int(exactly: value.rounded()) ?? (value.isNaN ? 0 : value < 0 ? .min : .max)
    }

    /// The sum, or `Int.max` if it overflows. The sizes of sparse files may add up to more than that.
    package func addingSaturating(_ other: Int) -> Int {
        let (sum, overflow) = addingReportingOverflow(other)
        return overflow ? .max : sum
    }

    /// With commas: 1,234,567.
    package var grouped: String {
        let digits = String(magnitude)
        var text = ""
        for (index, digit) in digits.enumerated() {
            if index > 0, (digits.count - index).isMultiple(of: 3) { text.append(",") }
            text.append(digit)
        }
        return self < 0 ? "-" + text : text
    }

    /// The number with a noun, as `5,210 frames`.
    package func of(_ noun: String) -> String { "\(grouped) \(noun)\(self == 1 ? "" : "s")" }

    /// A number of bytes, in the unit that needs few digits: `1,024 B`, `96 KiB`, `69 MiB`.
    package var byteSize: String {
        switch self {
        case ..<10_240: "\(grouped) B"
        case ..<10_485_760: "\((self / 1024).grouped) KiB"
        default: "\((self / 1_048_576).grouped) MiB"
        }
    }
}

extension Duration {
    /// The time with its unit, as `180.3 s`.
    package var seconds: String { inSeconds.seconds }

    /// The time in a unit that needs few digits, as `40 s`, `12 min`, `5 h`, `3 days`.
    package var rough: String { inSeconds.rough }
}

extension TimeInterval {
    /// The time with its unit, as `180.3 s`.
    package var seconds: String { String(format: "%.1f s", self) }

    /// The time in a unit that needs few digits, as `40 s`, `12 min`, `5 h`, `3 days`.
    package var rough: String {
        switch self {
        case ..<120: "\(Int(self)) s"
        case ..<7200: "\(Int(self / 60)) min"
        case ..<172_800: "\(Int(self / 3600)) h"
        default: "\(Int(Swift.min(self / 86_400, 1e9)).grouped) days"
        }
    }
}
