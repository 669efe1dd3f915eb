import GRDB
import RoundtableCore

extension KeyValueCollection {
    /// Stores a value, and keeps the metadata.
    ///
    /// If the same value is already stored, nothing is written and observers are not notified: see ``touch(_:in:)``.
    ///
    /// - returns: whether something was written.
    /// - throws: ``CollectionError``, `DatabaseError`.
    @discardableResult
    public func set(_ value: Value, for key: Key, in db: Database) throws -> Bool {
        let stored = try encoded(value, of: key)
        return try run(
            """
            INSERT INTO \(tableName) (key, value) VALUES (?, ?)
            ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE value IS NOT excluded.value
            """,
            [storedKey(key), stored],
            in: db
        ) > 0
    }

    /// Stores a value with its metadata. If `metadata` is nil, stored metadata is removed.
    ///
    /// - returns: whether something was written.
    /// - throws: ``CollectionError``, `DatabaseError`.
    @discardableResult
    public func set(_ value: Value, metadata: Metadata?, for key: Key, in db: Database) throws -> Bool {
        let stored = try encoded(value, of: key)
        let storedMetadata = try encoded(metadata: metadata, of: key)
        return try run(
            """
            INSERT INTO \(tableName) (key, value, metadata) VALUES (?, ?, ?)
            ON CONFLICT (key) DO UPDATE SET value = excluded.value, metadata = excluded.metadata
            WHERE value IS NOT excluded.value OR metadata IS NOT excluded.metadata
            """,
            [storedKey(key), stored, storedMetadata],
            in: db
        ) > 0
    }

    /// Stores metadata for a key that has a value. If `metadata` is nil, stored metadata is removed.
    ///
    /// - returns: whether something was written. It is false if there is no such key.
    /// - throws: ``CollectionError``, `DatabaseError`.
    @discardableResult
    public func set(metadata: Metadata?, for key: Key, in db: Database) throws -> Bool {
        let stored = try encoded(metadata: metadata, of: key)
        return try run(
            "UPDATE \(tableName) SET metadata = ?1 WHERE key = ?2 AND metadata IS NOT ?1",
            [stored, storedKey(key)],
            in: db
        ) > 0
    }

    /// Notifies all observers of the key, although its value has not changed. Use it when related data that is stored elsewhere has
    /// changed.
    ///
    /// - returns: whether there is such a key.
    /// - throws: ``CollectionError``, `DatabaseError`.
    @discardableResult
    public func touch(_ key: Key, in db: Database) throws -> Bool {
        // `touches` is changed, because SQLite does not write a row that stays the same, and other processes would see no commit. The other
        // columns are set, because observers in this process are notified by the columns that a statement sets.
        let assignments = "value = value, metadata = metadata, touches = touches + 1"
        return try run("UPDATE \(tableName) SET \(assignments) WHERE key = ?", [storedKey(key)], in: db) > 0
    }

    /// Removes a key with its value and metadata.
    ///
    /// - returns: whether there was such a key.
    /// - throws: ``CollectionError``, `DatabaseError`.
    @discardableResult
    public func remove(_ key: Key, in db: Database) throws -> Bool {
        try run("DELETE FROM \(tableName) WHERE key = ?", [storedKey(key)], in: db) > 0
    }

    /// Removes keys with their values and metadata.
    ///
    /// - returns: the number of removed keys.
    /// - throws: ``CollectionError``, `DatabaseError`.
    @discardableResult
    public func remove(_ keys: some Sequence<Key>, in db: Database) throws -> Int {
        try keys.reduce(0) { try $0 + (remove($1, in: db) ? 1 : 0) }
    }

    /// Removes all keys in a range, or all keys if no range is given.
    ///
    /// - returns: the number of removed keys.
    /// - throws: ``CollectionError``, `DatabaseError`.
    @discardableResult
    public func removeAll(_ range: CollectionRange<Key> = .all, in db: Database) throws -> Int {
        try run("DELETE FROM \(tableName)\(range.condition)", storedBounds(range), in: db)
    }

    private func run(_ sql: String, _ arguments: [DatabaseValue], in db: Database) throws -> Int {
        try statement(sql, in: db).execute(arguments: StatementArguments(arguments))
        return db.changesCount
    }
}

extension KeyValueCollection {
    var tableName: String { table.sqlName }

    func statement(_ sql: String, in db: Database) throws -> Statement {
        try explaining { try db.cachedStatement(sql: sql) }
    }

    /// Runs `prepare`. If the collection's table is missing, the error says how to create it.
    func explaining<T>(_ prepare: () throws -> T) throws -> T {
        do {
            return try prepare()
        } catch let error as DatabaseError where error.message == "no such table: \(table)" {
            throw DatabaseError(
                resultCode: error.extendedResultCode,
                message: """
                    no such table: \(table): the collection '\(name)' has no table in this database: create it in a migration, with \
                    db.create(collection:)
                    """,
                sql: error.sql
            )
        }
    }

    /// Returns the stored form of a key. A text that contains a NUL is refused, because SQLite would cut it there and confuse keys.
    func storedKey(_ key: Key) throws -> DatabaseValue {
        let stored = key.databaseValue
        guard case .string(let text) = stored.storage, text.utf8.contains(0) else { return stored }
        throw CollectionError.unencodable(
            collection: name,
            key: String(describing: key).debugDescription,
            part: .key,
            reason: "it contains a NUL"
        )
    }

    func storedBounds(_ range: CollectionRange<Key>) throws -> [DatabaseValue] { try range.bounds.map(storedKey) }

    private func encoded(_ value: Value, of key: Key) throws -> DatabaseValue {
        try encode(value, values, .value, of: key)
    }

    private func encoded(metadata value: Metadata?, of key: Key) throws -> DatabaseValue {
        try value.map { try encode($0, metadata, .metadata, of: key) } ?? .null
    }

    private func encode<T>(_ value: T, _ coding: CollectionCoding<T>, _ part: CollectionError.Part, of key: Key) throws
        -> DatabaseValue
    {
        do {
            let stored = try coding.encode(value)
            let hindrance: String
            switch stored.storage {
            case .null: hindrance = "its coding makes NULL of it"
            case .string(let text) where text.utf8.contains(0):
                hindrance = "its coding makes text of it that contains a NUL, where SQLite would cut it: make it a blob"
            default: return stored
            }
            throw EncodingError.invalidValue(value, .init(codingPath: [], debugDescription: hindrance))
        } catch {
            throw CollectionError.unencodable(
                collection: name,
                key: "\(key)",
                part: part,
                reason: CollectionError.reason(error)
            )
        }
    }
}
