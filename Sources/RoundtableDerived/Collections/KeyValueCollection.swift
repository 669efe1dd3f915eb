import GRDB

/// A key-value store in a table of its own. It is read and written in the same transactions as other tables.
///
/// ```swift
/// let people = KeyValueCollection("people", of: Person.self, by: String.self)
/// migrator.registerMigration("people") { db in try db.create(collection: people) }
///
/// try await db.write { db in
///     try people.set(Person(name: "Arthur", city: "Camelot"), for: "arthur", in: db)
/// }
/// let arthur = try await db.read { db in try people.get("arthur", in: db) }
/// ```
///
/// The table is an ordinary one, with the columns `key`, `value`, `metadata` and `touches`. Values are JSON by default. SQL, observations,
/// the history and derived tables (``field(_:)-(String...)``) use the table like any other.
///
/// A collection is a Swift value. Declare it once, in the module that your programs share, and use it wherever there is a `Database`.
public struct KeyValueCollection<Key: CollectionKey, Value: Codable & Sendable, Metadata: Codable & Sendable>: Sendable
{
    /// The name of the collection in errors.
    public let name: String

    /// The name of the table.
    public let table: String

    let values: CollectionCoding<Value>
    let metadata: CollectionCoding<Metadata>

    /// Creates a collection with metadata: a second value for each key, which can be read and written without the first.
    ///
    /// - Parameters:
    ///   - name: the name of the collection.
    ///   - value: the type of values.
    ///   - key: the type of keys.
    ///   - metadata: the type of metadata.
    ///   - table: the name of the table, or nil for `collection_` and the name.
    ///   - coding: how values are stored.
    ///   - metadataCoding: how metadata is stored.
    public init(
        _ name: String,
        of value: Value.Type = Value.self,
        by key: Key.Type = Key.self,
        metadata: Metadata.Type,
        table: String? = nil,
        coding: CollectionCoding<Value> = .json,
        metadataCoding: CollectionCoding<Metadata> = .json
    ) {
        self.name = name
        self.table = table ?? "collection_\(name)"
        values = coding
        self.metadata = metadataCoding
    }

    /// Creates a collection without metadata.
    ///
    /// - Parameters:
    ///   - name: the name of the collection.
    ///   - value: the type of values.
    ///   - key: the type of keys.
    ///   - table: the name of the table, or nil for `collection_` and the name.
    ///   - coding: how values are stored.
    public init(
        _ name: String,
        of value: Value.Type = Value.self,
        by key: Key.Type = Key.self,
        table: String? = nil,
        coding: CollectionCoding<Value> = .json
    ) where Metadata == Never {
        self.init(name, of: value, by: key, metadata: Never.self, table: table, coding: coding)
    }

    /// A key, with its value and metadata.
    public struct Entry: Sendable {
        public let key: Key
        public let value: Value
        /// The metadata, or nil if the key has none.
        public let metadata: Metadata?
    }
}

extension KeyValueCollection.Entry: Equatable where Value: Equatable, Metadata: Equatable {}

/// A type that can be the key of a ``KeyValueCollection``, with the type of the column that stores it.
///
/// A type of your own can conform by its raw values:
///
/// ```swift
/// struct PersonID: RawRepresentable, CollectionKey { let rawValue: String }
/// ```
public protocol CollectionKey: DatabaseValueConvertible, Hashable, Sendable {
    static var keyColumn: CollectionKeyColumn { get }
}

/// How keys are stored and ordered.
public enum CollectionKeyColumn: String, Sendable {
    /// Text, ordered by the bytes of UTF-8. Two strings that Swift considers equal, but that consist of other characters, are two keys.
    case text = "TEXT"
    /// Integers, stored as the rowid of the table. This is the fastest.
    case integer = "INTEGER"
    /// Blobs, ordered by bytes.
    case blob = "BLOB"
}
