/// How SQLite converts values that are stored in a column: [Type Affinity](https://www.sqlite.org/datatype3.html#type_affinity).
package enum Affinity: String {
    case integer = "INTEGER"
    case text = "TEXT"
    /// Values are not converted: 3 and 3.0 are different values, though they compare equal.
    case blob = "BLOB"
    case real = "REAL"
    case numeric = "NUMERIC"

    /// - parameter declared: the declared type of the column.
    init(ofType declared: String, inStrictTable isStrict: Bool) {
        let type = declared.uppercased()
        func has(_ words: String...) -> Bool { words.contains { type.contains($0) } }
        if isStrict && type == "ANY" {
            self = .blob
        } else if has("INT") {
            self = .integer
        } else if has("CHAR", "CLOB", "TEXT") {
            self = .text
        } else if has("BLOB") || type.isEmpty {
            self = .blob
        } else if has("REAL", "FLOA", "DOUB") {
            self = .real
        } else {
            self = .numeric
        }
    }
}
