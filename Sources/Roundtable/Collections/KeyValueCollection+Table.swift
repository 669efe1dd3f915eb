import GRDB

extension Database {
    /// Creates the table of a collection. In a migration, as any table.
    public func create<Key, Value, Metadata>(collection: KeyValueCollection<Key, Value, Metadata>) throws {
        let columns = [
            "key \(Key.keyColumn.rawValue) NOT NULL PRIMARY KEY", "value \(collection.values.column) NOT NULL",
            "metadata \(collection.metadata.column)", "touches INTEGER NOT NULL DEFAULT 0",
        ]
        try execute(sql: "CREATE TABLE \(collection.table.sqlName) (\(columns.joined(separator: ", ")))")
    }

    /// Drops the table of a collection, with all that is in it. In a migration.
    public func drop<Key, Value, Metadata>(collection: KeyValueCollection<Key, Value, Metadata>) throws {
        try execute(sql: "DROP TABLE \(collection.table.sqlName)")
    }
}

extension KeyValueCollection: DatabaseRegionConvertible {
    /// For observations, and for `changes(in:)`.
    public func databaseRegion(_ db: Database) throws -> DatabaseRegion { try Table(table).databaseRegion(db) }
}

extension KeyValueCollection {
    /// An SQL expression of what is found at a path in a value: for extensions, indexes, conditions.
    ///
    /// ```swift
    /// SecondaryIndex("cities", version: 1, of: people.table, fields: [.init("city", people.field("address", "city"))])
    /// ```
    ///
    /// It is NULL where there is nothing. Numbers and text are themselves, `true` and `false` are 1 and 0, dates are as the coding has them, arrays and objects are
    /// JSON. Only for collections whose values are JSON.
    ///
    /// - parameter path: names of coding keys, from the outside in; none: the whole value. They may not contain quotation marks, backslashes
    ///   or control characters, which versions of SQLite look for in different ways.
    public func field(_ path: String...) -> String { expression(path.map(Step.name), of: "value", values.isJSON) }

    /// The same, by coding keys. A number, as `CodingKey` has for the elements of arrays, is a place in an array; in an object that has numbers for
    /// names, name it as text.
    public func field(_ path: [any CodingKey]) -> String { expression(Self.steps(path), of: "value", values.isJSON) }

    /// The same, in the metadata.
    public func metadataField(_ path: String...) -> String {
        expression(path.map(Step.name), of: "metadata", metadata.isJSON)
    }

    public func metadataField(_ path: [any CodingKey]) -> String {
        expression(Self.steps(path), of: "metadata", metadata.isJSON)
    }

    private enum Step {
        case name(String)
        case place(Int)
    }

    private static func steps(_ path: [any CodingKey]) -> [Step] {
        path.map { key in
            // Keys of objects can have numbers, too; JSON has their names.
            guard let place = key.intValue, ["", "\(place)", "Index \(place)"].contains(key.stringValue) else {
                return .name(key.stringValue)
            }
            return .place(place)
        }
    }

    /// Whether a path of SQLite's JSON functions finds the name, in all its versions.
    static func isNameable(_ name: String) -> Bool {
        name.utf8.allSatisfy { $0 >= 0x20 && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
    }

    private func expression(_ path: [Step], of column: String, _ isJSON: Bool) -> String {
        precondition(isJSON, "collection '\(name)': SQL cannot look into \(column), whose coding is not JSON")
        let steps = path.map { step in
            switch step {
            case .place(let place): return "[\(place)]"
            case .name(let name):
                precondition(
                    Self.isNameable(name),
                    "a path of SQLite's JSON functions cannot name \(name.debugDescription)"
                )
                return ".\"\(name)\""
            }
        }
        return "CASE WHEN json_valid(\(column)) THEN json_extract(\(column), \(("$" + steps.joined()).sqlText)) END"
    }
}
