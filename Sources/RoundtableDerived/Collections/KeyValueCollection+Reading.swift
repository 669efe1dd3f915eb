import GRDB

extension KeyValueCollection {
    /// Returns the value of a key.
    ///
    /// - returns: nil when there is no such key.
    /// - throws: ``CollectionError``, `DatabaseError`.
    public func get(_ key: Key, in db: Database) throws -> Value? {
        let stored = try DatabaseValue.fetchOne(
            statement("SELECT value FROM \(tableName) WHERE key = ?", in: db),
            arguments: [storedKey(key)]
        )
        return try stored.map { try decode($0, values, .value, of: key.databaseValue) }
    }

    /// Returns the values of the keys that exist, in the order of `keys`.
    ///
    /// The result is not a dictionary, because two strings that Swift considers equal can be two keys (``CollectionKeyColumn/text``).
    ///
    /// - throws: ``CollectionError``, `DatabaseError`.
    public func getMany(_ keys: some Sequence<Key>, in db: Database) throws -> [(key: Key, value: Value)] {
        try keys.compactMap { key in try get(key, in: db).map { (key, $0) } }
    }

    /// Returns the metadata of a key.
    ///
    /// - returns: nil when there is no such key, or it has no metadata.
    /// - throws: ``CollectionError``, `DatabaseError`.
    public func metadata(for key: Key, in db: Database) throws -> Metadata? {
        let sql = "SELECT metadata FROM \(tableName) WHERE key = ? AND metadata IS NOT NULL"
        let stored = try DatabaseValue.fetchOne(statement(sql, in: db), arguments: [storedKey(key)])
        return try stored.map { try decode($0, metadata, .metadata, of: key.databaseValue) }
    }

    /// Returns the value and the metadata of a key, or nil if there is no such key.
    ///
    /// - throws: ``CollectionError``, `DatabaseError`.
    public func entry(_ key: Key, in db: Database) throws -> Entry? {
        let statement = try statement("SELECT key, value, metadata FROM \(tableName) WHERE key = ?", in: db)
        return try CollectionRow.fetchOne(statement, arguments: [storedKey(key)]).map(entry)
    }

    public func contains(_ key: Key, in db: Database) throws -> Bool {
        let statement = try statement("SELECT EXISTS (SELECT 1 FROM \(tableName) WHERE key = ?)", in: db)
        return try Bool.fetchOne(statement, arguments: [storedKey(key)]) ?? false
    }

    /// Returns the number of keys in a range, or of all keys.
    ///
    /// - throws: ``CollectionError``, `DatabaseError`.
    public func count(_ range: CollectionRange<Key> = .all, in db: Database) throws -> Int {
        try Int.fetchOne(
            statement("SELECT count(*) FROM \(tableName)\(range.condition)", in: db),
            arguments: StatementArguments(storedBounds(range))
        ) ?? 0
    }

    /// Returns the keys of a range in their order (``CollectionKeyColumn``).
    ///
    /// - throws: ``CollectionError``, `DatabaseError`.
    public func keys(
        _ range: CollectionRange<Key> = .all,
        descending: Bool = false,
        limit: Int? = nil,
        in db: Database
    ) throws -> [Key] {
        let sql = select("key", range, descending, limit)
        let arguments = StatementArguments(try storedBounds(range))
        return try DatabaseValue.fetchAll(statement(sql, in: db), arguments: arguments).map(key)
    }

    /// Returns a cursor over keys, values and metadata, in the order of keys. Each entry is read and decoded when it is requested.
    ///
    /// ```swift
    /// let entries = try people.entries(.from("m"), in: db)
    /// while let entry = try entries.next() { … }
    /// ```
    ///
    /// Use the cursor only in the database access that created it. Do not change the collection while it runs.
    ///
    /// - throws: ``CollectionError``, `DatabaseError`.
    public func entries(
        _ range: CollectionRange<Key> = .all,
        descending: Bool = false,
        limit: Int? = nil,
        in db: Database
    ) throws -> AnyCursor<Entry> {
        let sql = select("key, value, metadata", range, descending, limit)
        let arguments = StatementArguments(try storedBounds(range))
        // The statement is not a cached one, because two cursors cannot share a statement.
        let statement = try explaining { try db.makeStatement(sql: sql) }
        let rows = try CollectionRow.fetchCursor(statement, arguments: arguments)
        return AnyCursor(rows.map(entry))
    }

    /// Decodes rows of the table, such as those that a derived table has found:
    ///
    /// ```swift
    /// let page = try people.entries(of: byCity.rows(in: db, group: "Oslo", limit: 50))
    /// ```
    public func entries(of rows: [CollectionRow]) throws -> [Entry] { try rows.map(entry) }

    private func select(_ columns: String, _ range: CollectionRange<Key>, _ descending: Bool, _ limit: Int?) -> String {
        let order = " ORDER BY key\(descending ? " DESC" : "")"
        return "SELECT \(columns) FROM \(tableName)\(range.condition)\(order)\(limit.map { " LIMIT \($0)" } ?? "")"
    }

    // MARK: Decoding

    private func entry(_ row: CollectionRow) throws -> Entry {
        try Entry(
            key: key(row.key),
            value: decode(row.value, values, .value, of: row.key),
            metadata: row.metadata.isNull ? nil : decode(row.metadata, metadata, .metadata, of: row.key)
        )
    }

    private func key(_ stored: DatabaseValue) throws -> Key {
        guard let key = Key.fromDatabaseValue(stored) else {
            throw CollectionError.undecodable(
                collection: name,
                key: "\(stored)",
                part: .key,
                reason: "it is not of the type \(Key.self)"
            )
        }
        return key
    }

    private func decode<T>(
        _ stored: DatabaseValue,
        _ coding: CollectionCoding<T>,
        _ part: CollectionError.Part,
        of key: DatabaseValue
    ) throws -> T {
        do {
            return try coding.decode(stored)
        } catch {
            throw CollectionError.undecodable(
                collection: name,
                key: Key.fromDatabaseValue(key).map { "\($0)" } ?? "\(key)",
                part: part,
                reason: CollectionError.reason(error)
            )
        }
    }
}

/// A row of a collection's table, as it is stored: see ``KeyValueCollection/entries(of:)``.
public struct CollectionRow: FetchableRecord, Sendable {
    let key: DatabaseValue
    let value: DatabaseValue
    let metadata: DatabaseValue

    public init(row: Row) throws {
        (key, value, metadata) = (row["key"], row["value"], row["metadata"])
    }
}

/// A range of the keys of a collection.
public struct CollectionRange<Key: CollectionKey>: Sendable {
    /// The SQL text ` WHERE …`, or an empty text for all keys.
    let condition: String
    let bounds: [Key]

    private init(_ conditions: [String] = [], _ bounds: [Key] = []) {
        condition = conditions.isEmpty ? "" : " WHERE " + conditions.joined(separator: " AND ")
        self.bounds = bounds
    }

    public static var all: CollectionRange { CollectionRange() }

    /// The keys from `first` on. `first` is included.
    public static func from(_ first: Key) -> CollectionRange { CollectionRange(["key >= ?"], [first]) }

    /// The keys after `last`, for the next page. `last` is not included.
    public static func after(_ last: Key) -> CollectionRange { CollectionRange(["key > ?"], [last]) }

    /// The keys before `end`. `end` is not included.
    public static func before(_ end: Key) -> CollectionRange { CollectionRange(["key < ?"], [end]) }

    /// The keys from `first` to `last`. Both are included.
    public static func from(_ first: Key, through last: Key) -> CollectionRange {
        CollectionRange(["key >= ?", "key <= ?"], [first, last])
    }

    /// The keys from `first` to `end`. `end` is not included.
    public static func from(_ first: Key, before end: Key) -> CollectionRange {
        CollectionRange(["key >= ?", "key < ?"], [first, end])
    }
}
