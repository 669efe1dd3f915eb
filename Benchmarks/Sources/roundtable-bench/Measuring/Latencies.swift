import Histogram

/// What operations took: to three digits, the longest exactly. As small after a million of them as after one.
struct Latencies: Codable, Sendable {
    private static let highest = Nanoseconds(seconds: 3600)

    private var histogram = Histogram<UInt64>(
        highestTrackableValue: Self.highest,
        numberOfSignificantValueDigits: .three
    )
    private(set) var longest: Nanoseconds = 0

    mutating func record(_ time: Nanoseconds) {
        histogram.record(min(time, Self.highest))
        longest = max(longest, time)
    }

    mutating func add(_ other: Latencies) {
        for step in other.histogram.recordedValues() { histogram.record(step.value, count: step.count) }
        longest = max(longest, other.longest)
    }

    /// What at least `fraction` of all did not exceed; 0 when there are none.
    func percentile(_ fraction: Double) -> Nanoseconds {
        // The histogram gives the upper end of a range of values that it does not tell apart.
        min(histogram.valueAtPercentile(fraction * 100), longest)
    }

    var count: Int { Int(histogram.totalCount) }

    /// At a random moment while something is under way, how long does it take? In at least `fraction` of all moments, no longer than
    /// this. Counted one by one, a single wait of a second is nothing beside the thousands of operations of others meanwhile.
    func percentile(ofTime fraction: Double) -> Nanoseconds {
        let steps = histogram.recordedValues().map { (value: $0.value, time: Double($0.value) * Double($0.count)) }
        var left = fraction * steps.reduce(0) { $0 + $1.time }
        for step in steps {
            left -= step.time
            if left <= 0 { return min(step.value, longest) }
        }
        return longest
    }
}

extension Sequence<Latencies> {
    var merged: Latencies { reduce(into: Latencies()) { $0.add($1) } }
}
