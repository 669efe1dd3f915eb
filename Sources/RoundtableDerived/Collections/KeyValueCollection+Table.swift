import GRDB
import RoundtableCore

extension Database {
    /// Creates the table of a collection. Call it in a migration, like the creation of any table.
    ///
    /// - throws: `DatabaseError`.
    public func create<Key, Value, Metadata>(collection: KeyValueCollection<Key, Value, Metadata>) throws {
        let columns = [
            "key \(Key.keyColumn.rawValue) NOT NULL PRIMARY KEY", "value \(collection.values.column) NOT NULL",
            "metadata \(collection.metadata.column)", "touches INTEGER NOT NULL DEFAULT 0",
        ]
        try execute(sql: "CREATE TABLE \(collection.table.sqlName) (\(columns.joined(separator: ", ")))")
    }

    /// Drops the table of a collection with all its contents. Call it in a migration.
    ///
    /// - throws: `DatabaseError`.
    public func drop<Key, Value, Metadata>(collection: KeyValueCollection<Key, Value, Metadata>) throws {
        try execute(sql: "DROP TABLE \(collection.table.sqlName)")
    }
}

extension KeyValueCollection: DatabaseRegionConvertible {
    /// Returns the region of the collection's table, for observations and for `changes(in:)`.
    public func databaseRegion(_ db: Database) throws -> DatabaseRegion { try Table(table).databaseRegion(db) }
}

extension KeyValueCollection {
    /// Returns an SQL expression for the content at a path in a value. Use it in derived tables, indexes and conditions.
    ///
    /// ```swift
    /// SecondaryIndex("cities", version: 1, of: people.table, fields: [.init("city", people.field("address", "city"))])
    /// ```
    ///
    /// The expression is NULL if the path does not exist. Numbers and text are returned as they are, `true` and `false` as 1 and 0, dates
    /// as the coding stores them, arrays and objects as JSON. The collection's values must be JSON.
    ///
    /// - parameter path: the names of coding keys, from the outermost to the innermost. An empty path is the whole value. The names may not
    ///   contain quotation marks, backslashes or control characters, because versions of SQLite find these in different ways.
    public func field(_ path: String...) -> String { expression(path.map(Step.name), of: "value", values.isJSON) }

    /// Returns an SQL expression for the content at a path of coding keys in a value. A number, which `CodingKey` has for the elements of
    /// arrays, is an index in an array. If an object has numbers as names, pass the name as text.
    public func field(_ path: [any CodingKey]) -> String { expression(Self.steps(path), of: "value", values.isJSON) }

    /// Returns an SQL expression for the content at a path in the metadata.
    public func metadataField(_ path: String...) -> String {
        expression(path.map(Step.name), of: "metadata", metadata.isJSON)
    }

    private enum Step {
        case name(String)
        case place(Int)
    }

    private static func steps(_ path: [any CodingKey]) -> [Step] {
        path.map { key in
            // Keys of objects can have numbers, too, but JSON stores their names.
            guard let place = key.intValue, ["", "\(place)", "Index \(place)"].contains(key.stringValue) else {
                return .name(key.stringValue)
            }
            return .place(place)
        }
    }

    /// Whether paths of SQLite's JSON functions can contain the name, in all versions of SQLite.
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
