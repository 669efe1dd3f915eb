import RoundtableCore

/// The names of the tables, indexes and triggers of derived tables (rule E1).
package enum DerivedTableNames {
    static let prefix = InternalTables.derivedTables

    static func projection(_ name: String) -> String { "\(prefix)_\(name)" }
    package static func part(_ name: String, _ part: String) -> String { "\(projection(name))__\(part)" }

    /// Returns why a text cannot be a derived table's name, or nil if it can.
    static func problem(_ name: String) -> String? {
        let isWord = name.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
                true
            default: false
            }
        }
        guard (1...60).contains(name.utf8.count), isWord, name.first?.isLetter == true else {
            return "a name is 1 to 60 letters, digits and underscores of ASCII, and begins with a letter."
        }
        return name.contains("__") || name.hasSuffix("_")
            ? "two underscores, and one at the end, are kept for its parts." : nil
    }
}
