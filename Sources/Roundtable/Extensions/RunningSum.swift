import GRDB

/// The sum of a column, and what it takes to keep it true while values come and go (rule E10): integers in two halves, neither of which can
/// overflow, and apart from them all that is no integer, of which little may be left when something large goes.
struct RunningSum {
    let name: String

    init(_ name: String) { self.name = name }

    static let columnCount = 5

    private func column(_ part: String) -> String { "roundtable_\(part)_\(name)".sqlName }
    private var high: String { column("high") }
    private var low: String { column("low") }
    private var real: String { column("real") }
    private var realCount: String { column("reals") }
    private var count: String { column("count") }

    /// Definitions. All begin at 0.
    var columns: [String] {
        [
            "\(high) INTEGER NOT NULL", "\(low) INTEGER NOT NULL", "\(real) REAL", "\(realCount) INTEGER NOT NULL",
            "\(count) INTEGER NOT NULL",
        ]
    }

    /// Assignments of an UPDATE.
    ///
    /// - Parameters:
    ///   - sign: `+` after a row has come, `-` after it has gone.
    ///   - rest: the table that the rows are in, and which of them, after FROM.
    func changes(_ sign: String, _ row: String, rest: String) -> [String] {
        // As sum() has it: texts of numbers are numbers, others 0.
        let value = "(\(row).\(name.sqlName) + 0)"
        let isInteger = "typeof\(value) = 'integer'"
        let isReal = "typeof\(value) = 'real'"
        func changed(_ column: String, _ difference: String) -> String { "\(column) = \(column) \(sign) \(difference)" }
        var reals = "\(real) \(sign) \(value)"
        if sign == "-" {
            // Infinities, what is NULL for their sake, and small differences of large numbers tell nothing of what is left.
            let isSound = "abs(\(reals)) < 9e999 AND abs(\(reals)) * 1e6 >= abs\(value)"
            let own = "(\(name.sqlName) + 0)"
            let anew = "(SELECT total\(own) FROM \(rest) AND typeof\(own) = 'real')"
            reals = "CASE WHEN \(realCount) = 1 THEN 0 WHEN \(isSound) THEN \(reals) ELSE \(anew) END"
        }
        return [
            changed(high, "CASE WHEN \(isInteger) THEN \(value) >> 32 ELSE 0 END"),
            changed(low, "CASE WHEN \(isInteger) THEN \(value) & 4294967295 ELSE 0 END"),
            "\(real) = CASE WHEN \(isReal) THEN \(reals) ELSE \(real) END",
            changed(realCount, "coalesce(\(isReal), 0)"),
            changed(count, "(\(row).\(name.sqlName) IS NOT NULL)"),
        ]
    }

    /// What the columns of a row say, from this one on.
    static func value(of row: Row, at index: Int) -> (sum: DatabaseValue, count: Int) {
        let (high, low, realCount): (Int64, Int64, Int) = (row[index], row[index + 1], row[index + 3])
        return (sum(high, low, realCount == 0 ? 0 : row[index + 2], isInteger: realCount == 0), row[index + 4])
    }

    private static func sum(_ high: Int64, _ low: Int64, _ real: Double?, isInteger: Bool) -> DatabaseValue {
        let (upper, lower) = (high + low >> 32, low & 0xffff_ffff)
        let (product, isTooLarge) = upper.multipliedReportingOverflow(by: 1 << 32)
        // Nothing is carried from the lower half: it is positive, and has less than 32 bits.
        if isInteger, !isTooLarge { return (product + lower).databaseValue }
        guard let real else { return .null }
        let integers = isTooLarge ? Double(upper) * 4_294_967_296 + Double(lower) : Double(product + lower)
        return (integers + real).databaseValue
    }
}
