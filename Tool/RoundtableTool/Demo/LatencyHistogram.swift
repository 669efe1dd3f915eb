/// Counts of durations in buckets that are at most 1.6 % wide. It gives percentiles of any number of samples.
struct LatencyHistogram: Equatable, Sendable {
    private static let subBuckets = 64
    /// There are 64 buckets of 1 ns each, then 64 for each further power of two.
    private var counts = [UInt32](repeating: 0, count: 64 * 59)
    private(set) var count = 0
    private(set) var longest: UInt64 = 0

    mutating func record(_ nanoseconds: UInt64) {
        counts[Self.bucket(nanoseconds)] &+= 1
        count += 1
        longest = max(longest, nanoseconds)
    }

    /// The duration that `share` (0 … 1) of the samples do not exceed, in nanoseconds; 0 without samples.
    func percentile(_ share: Double) -> UInt64 {
        let rank = max(1, Int((share * Double(count)).rounded(.up)))
        var seen = 0
        for (bucket, count) in counts.enumerated() where count > 0 {
            seen += Int(count)
            if seen >= rank { return min(longest, Self.upperBound(bucket)) }
        }
        return longest
    }

    private static func bucket(_ value: UInt64) -> Int {
        guard value >= 64 else { return Int(value) }
        let exponent = 63 - value.leadingZeroBitCount
        return (exponent - 5) * subBuckets + Int(value >> UInt64(exponent - 6)) - subBuckets
    }

    private static func upperBound(_ bucket: Int) -> UInt64 {
        guard bucket >= subBuckets else { return UInt64(bucket) }
        let shift = UInt64(bucket / subBuckets - 1)
        return (UInt64(bucket % subBuckets + subBuckets) << shift) | ((1 << shift) - 1)
    }
}
