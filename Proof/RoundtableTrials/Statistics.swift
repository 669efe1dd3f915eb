/// Jain's fairness index: 1 when all shares are equal, 1/n when one share is everything.
package func jainIndex(_ shares: [Int]) -> Double {
    let squares = shares.reduce(0.0) { $0 + Double($1) * Double($1) }
    guard squares > 0 else { return 0 }
    let sum = shares.reduce(0.0) { $0 + Double($1) }
    return sum * sum / (Double(shares.count) * squares)
}

/// The value that the given part of the sorted values does not exceed; 0 when there are no values.
package func percentile(_ part: Double, ofSorted values: [Double]) -> Double {
    guard !values.isEmpty else { return 0 }
    return values[min(values.count - 1, Int(part * Double(values.count)))]
}
