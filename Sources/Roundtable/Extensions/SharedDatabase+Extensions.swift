import GRDB

/// What is told of extensions: ``SharedDatabase/Options/onExtensionEvent``.
public enum ExtensionEvent: Sendable {
    /// Some more rows were derived.
    case progress(ExtensionProgress)
    /// The triggers of these extensions were not what they have to be: a migration, or another program, has recreated their table, or has
    /// put a trigger that ends statements. They are built anew; until that is done, their use fails.
    case madeAnew([String])
    /// Building has failed. When something is in the way that passes, such as a lock or a suspension, it is tried again in the background, and
    /// this is told once; the rest is tried when an extension has to be built anew, or when a program opens the database for writing.
    /// ``ExtensionError/notDerived(path:name:table:after:upTo:reason:)``: from these rows; other extensions are built.
    case failed(any Error)
}

extension SharedDatabase {
    /// Builds in the background what has to be made anew.
    func followExtensions() {
        writer.extensions?.didMakeAnew = { [weak self] names in
            guard let self else { return }
            extensionBuilder?.beginLater(self, madeAnew: names)
        }
    }

    /// Takes away the triggers of all extensions that are derived from a table, which are then built anew by the next write of a program that
    /// declares them, or when one opens the database.
    ///
    /// For schema changes that SQLite refuses because a trigger names the column (`ALTER TABLE … DROP COLUMN`), in the same transaction and
    /// before the change. Migrations of a ``Schema`` need it not: when one fails so, the extension is put aside, and it is run again.
    ///
    /// - throws: `DatabaseError`.
    public static func putExtensionsAside(of table: String, in db: Database) throws {
        for stored in try StoredExtension.fetchAll(db) where stored.baseTable.lowercased() == table.lowercased() {
            try ExtensionRegistry.putAside(stored, db)
        }
    }
}

extension SharedDatabase.Options {
    /// For all connections.
    mutating func add(_ functions: [DatabaseFunction]) {
        if functions.isEmpty { return }
        configuration.prepareDatabase { db in
            for function in functions { db.add(function: function) }
        }
    }
}

extension SharedExtension {
    /// Makes sure that what is derived can be relied upon, in the transaction that `db` is in (rule E8).
    ///
    /// - throws: ``ExtensionError``.
    public func checkIsReady(_ db: Database) throws { _ = try stored(db) }

    /// What the database knows of it, when it is ready.
    func stored(_ db: Database) throws -> StoredExtension {
        guard let stored = try StoredExtension.fetch(db, name) ?? TemporaryExtension.fetch(db, DescribedExtension(self))
        else {
            throw ExtensionError.notRegistered(path: db.filePath, name: name)
        }
        if stored.version != version {
            let disagreement = ExtensionDifference.Disagreement.version(declared: version, stored: stored.version)
            throw ExtensionError.differs(path: db.filePath, name: name, disagreement)
        }
        if stored.fingerprint != definition.fingerprint {
            throw ExtensionError.differs(path: db.filePath, name: name, .definition(definition, stored))
        }
        switch stored.state {
        case .ready:
            if stored.schema == "main" { try ExtensionFollowing.check(stored, db) }
            return stored
        case .building:
            throw ExtensionError.building(path: db.filePath, name: name, done: stored.done, total: stored.total)
        case .missing:
            throw ExtensionError.baseTableMissing(path: db.filePath, name: name, table: stored.baseTable)
        }
    }
}
