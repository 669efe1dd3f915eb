import GRDB

/// The primary key of a row in a view. Texts are compared byte by byte, as SQLite does, and not as Swift's strings.
public struct ViewKey: Hashable, Sendable {
    public let values: [DatabaseValue]

    public init(_ values: [DatabaseValue]) { self.values = values }

    init(_ row: Row) { values = Array(row.databaseValues) }

    /// The value of a key that consists of one integer, or nil for any other key.
    public var integer: Int64? { values.count == 1 ? Int64.fromDatabaseValue(values[0]) : nil }

    public static func == (one: Self, other: Self) -> Bool {
        one.values.elementsEqual(other.values) { ExactValue($0) == ExactValue($1) }
    }

    public func hash(into hasher: inout Hasher) { for value in values { hasher.combine(ExactValue(value)) } }
}

/// A value that is compared as SQLite compares it. Two texts that Swift considers equal, but that consist of other characters, are not
/// equal.
struct ExactValue: Hashable {
    let value: DatabaseValue

    init(_ value: DatabaseValue) { self.value = value }

    static func == (one: Self, other: Self) -> Bool {
        if case .string(let text) = one.value.storage, case .string(let otherText) = other.value.storage {
            return text.utf8.elementsEqual(otherText.utf8)
        }
        return one.value == other.value
    }

    func hash(into hasher: inout Hasher) {
        guard case .string(let text) = value.storage else { return hasher.combine(value) }
        for byte in text.utf8 { hasher.combine(byte) }
    }
}
