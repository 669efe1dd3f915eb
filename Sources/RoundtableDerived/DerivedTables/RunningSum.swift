import GRDB
import RoundtableCore

// Rule E10: A sum is kept in two halves of 32 bits for integers, which do not overflow, and in one REAL for all else, with a count of
// these. A REAL that goes is subtracted, unless it was the last one, which leaves 0, or unless the difference is infinite, NULL, or less
// than a millionth of it: then the sum of the rest is computed from the projection. So no value makes a write fail, and none leaves a
// trace. The columns are `roundtable_high_N`, `low`, `real`, `reals` and `count`.

/// The sum of a column, in a form that stays correct while rows are inserted and deleted (rule E10).
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

    /// The column definitions. All columns begin at 0.
    var columns: [String] {
        [
            "\(high) INTEGER NOT NULL", "\(low) INTEGER NOT NULL", "\(real) REAL", "\(realCount) INTEGER NOT NULL",
            "\(count) INTEGER NOT NULL",
        ]
    }

    /// The assignments of the UPDATE that adds or subtracts one row.
    ///
    /// - Parameters:
    ///   - sign: `+` after a row was inserted, `-` after a row was deleted.
    ///   - rest: the text after FROM that selects the remaining rows: the table and its WHERE clause.
    func changes(_ sign: String, _ row: String, rest: String) -> [String] {
        // As in SQLite's sum(), a text that looks like a number is that number, and other texts are 0.
        let value = "(\(row).\(name.sqlName) + 0)"
        let isInteger = "typeof\(value) = 'integer'"
        let isReal = "typeof\(value) = 'real'"
        func changed(_ column: String, _ difference: String) -> String { "\(column) = \(column) \(sign) \(difference)" }
        var reals = "\(real) \(sign) \(value)"
        if sign == "-" {
            let isSound = "abs(\(reals)) < 9e999 AND abs(\(reals)) * 1e6 >= abs\(value)"
            let own = "(\(name.sqlName) + 0)"
            let recomputed = "(SELECT total\(own) FROM \(rest) AND typeof\(own) = 'real')"
            reals = "CASE WHEN \(realCount) = 1 THEN 0 WHEN \(isSound) THEN \(reals) ELSE \(recomputed) END"
        }
        return [
            changed(high, "CASE WHEN \(isInteger) THEN \(value) >> 32 ELSE 0 END"),
            changed(low, "CASE WHEN \(isInteger) THEN \(value) & 4294967295 ELSE 0 END"),
            "\(real) = CASE WHEN \(isReal) THEN \(reals) ELSE \(real) END",
            changed(realCount, "coalesce(\(isReal), 0)"),
            changed(count, "(\(row).\(name.sqlName) IS NOT NULL)"),
        ]
    }

    /// Reads the sum and the count from a row's columns, beginning at `index`.
    static func value(of row: Row, at index: Int) -> (sum: DatabaseValue, count: Int) {
        let (high, low, realCount): (Int64, Int64, Int) = (row[index], row[index + 1], row[index + 3])
        return (sum(high, low, realCount == 0 ? 0 : row[index + 2], isInteger: realCount == 0), row[index + 4])
    }

    private static func sum(_ high: Int64, _ low: Int64, _ real: Double?, isInteger: Bool) -> DatabaseValue {
        let (upper, lower) = (high + low >> 32, low & 0xffff_ffff)
        let (product, isTooLarge) = upper.multipliedReportingOverflow(by: 1 << 32)
        // Adding the lower half cannot overflow, because it is at least 0 and less than 2^32.
        if isInteger, !isTooLarge { return (product + lower).databaseValue }
        guard let real else { return .null }
        let integers = isTooLarge ? Double(upper) * 4_294_967_296 + Double(lower) : Double(product + lower)
        return (integers + real).databaseValue
    }
}
