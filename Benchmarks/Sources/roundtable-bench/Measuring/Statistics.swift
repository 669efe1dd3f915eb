extension Collection where Element: Comparable {
    /// The smallest element that at least `fraction` of all do not exceed (nearest rank); nil when there are none.
    func percentile(_ fraction: Double) -> Element? {
        guard !isEmpty else { return nil }
        let sorted = sorted()
        let rank = (fraction * Double(sorted.count)).rounded(.up)
        return sorted[Swift.min(Swift.max(Int(rank) - 1, 0), sorted.count - 1)]
    }
}

extension Collection where Element == Double {
    /// The middle one, or the mean of the middle two; 0 when there are none.
    var median: Double {
        guard !isEmpty else { return 0 }
        let sorted = sorted()
        return (sorted[(sorted.count - 1) / 2] + sorted[sorted.count / 2]) / 2
    }

    /// What a quarter is below, and what a quarter is above.
    var middleHalf: [Double] { [percentile(0.25) ?? 0, percentile(0.75) ?? 0] }
}

extension Collection where Element == Int {
    /// Jain's fairness index: 1 when all have the same, 1/n when one has everything.
    var jain: Double {
        let sum = reduce(0.0) { $0 + Double($1) }
        let squares = reduce(0.0) { $0 + Double($1) * Double($1) }
        return squares == 0 ? 0 : sum * sum / (Double(count) * squares)
    }
}
