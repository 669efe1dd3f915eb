import GRDB

extension KeyValueCollection {
    /// Stores a value. The metadata stays.
    ///
    /// If the same is stored already, nothing is written, and nobody is told of a change: see ``touch(_:in:)``.
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

    /// Stores a value with its metadata; nil takes that away.
    ///
    /// - returns: whether something was written.
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

    /// Stores metadata for a key that has a value; nil takes it away.
    ///
    /// - returns: whether something was written: not when there is no such key.
    @discardableResult
    public func set(metadata: Metadata?, for key: Key, in db: Database) throws -> Bool {
        let stored = try encoded(metadata: metadata, of: key)
        return try run(
            "UPDATE \(tableName) SET metadata = ?1 WHERE key = ?2 AND metadata IS NOT ?1",
            [stored, storedKey(key)],
            in: db
        ) > 0
    }

    /// Tells all who observe the key that it has changed, though it has not: for what is shown with it and stored elsewhere.
    ///
    /// - returns: whether there is such a key.
    @discardableResult
    public func touch(_ key: Key, in db: Database) throws -> Bool {
        // SQLite does not write a row that stays as it is, and then there is no commit that others could hear of. Observers in this process ask
        // for the columns that a statement sets.
        let assignments = "value = value, metadata = metadata, touches = touches + 1"
        return try run("UPDATE \(tableName) SET \(assignments) WHERE key = ?", [storedKey(key)], in: db) > 0
    }

    /// - returns: whether there was such a key.
    @discardableResult
    public func remove(_ key: Key, in db: Database) throws -> Bool {
        try run("DELETE FROM \(tableName) WHERE key = ?", [storedKey(key)], in: db) > 0
    }

    /// - returns: how many there were.
    @discardableResult
    public func remove(_ keys: some Sequence<Key>, in db: Database) throws -> Int {
        try keys.reduce(0) { try $0 + (remove($1, in: db) ? 1 : 0) }
    }

    /// Removes what is in a range of keys; without one, everything.
    ///
    /// - returns: how many there were.
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

    /// - throws: for a table that is missing, SQLite's error with what to do.
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

    /// SQLite would cut text at a NUL, and take one key for another.
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
