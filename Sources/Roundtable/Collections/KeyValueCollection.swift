import GRDB

/// Values by key, in a table of their own: what a key-value store has, in the same transactions as SQL.
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
/// The table is an ordinary one, with the columns `key`, `value`, `metadata` and `touches`. Values are JSON, unless said otherwise: SQL, observations, the
/// history and extensions (``field(_:)-(String...)``) use them as they use any table.
///
/// A collection is a value: declare it once, in the module that your programs share, and use it wherever there is a `Database`.
public struct KeyValueCollection<Key: CollectionKey, Value: Codable & Sendable, Metadata: Codable & Sendable>: Sendable
{
    /// How it is called in errors.
    public let name: String

    /// The table that it is in.
    public let table: String

    let values: CollectionCoding<Value>
    let metadata: CollectionCoding<Metadata>

    /// A collection with metadata: a second value for each key, which can be read and written without the first.
    ///
    /// - Parameters:
    ///   - table: nil for `collection_` and the name.
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

    /// A collection without metadata.
    ///
    /// - Parameters:
    ///   - table: nil for `collection_` and the name.
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

    /// A key, with what is stored for it.
    public struct Entry: Sendable {
        public let key: Key
        public let value: Value
        /// nil: it has none.
        public let metadata: Metadata?
    }
}

extension KeyValueCollection.Entry: Equatable where Value: Equatable, Metadata: Equatable {}

/// A type whose values are keys of a ``KeyValueCollection``, and the type of the column that holds them.
///
/// A type of your own whose raw values are keys is one, too:
///
/// ```swift
/// struct PersonID: RawRepresentable, CollectionKey { let rawValue: String }
/// ```
public protocol CollectionKey: DatabaseValueConvertible, Hashable, Sendable {
    static var keyColumn: CollectionKeyColumn { get }
}

/// How keys are stored, and so how they are ordered.
public enum CollectionKeyColumn: String, Sendable {
    /// By the bytes of UTF-8. Two strings that Swift takes for equal, but that are composed of other characters, are two keys.
    case text = "TEXT"
    /// The rowid of the table itself: the fastest.
    case integer = "INTEGER"
    /// By bytes.
    case blob = "BLOB"
}
