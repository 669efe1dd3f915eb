import GRDB
import RoundtableCore

/// An event of an extension: see ``SharedDatabase/Options/onExtensionEvent``.
public enum ExtensionEvent: Sendable {
    /// More rows were derived.
    case progress(ExtensionProgress)
    /// The triggers of these extensions were missing or wrong. A migration or another program has recreated their table, or has added an
    /// AFTER trigger to it. The extensions are being built again. Until that is done, using them fails.
    case rebuilding([String])
    /// Building has failed. If the cause is temporary, such as a lock or a suspension, building is retried in the background, and this
    /// event is reported once. Otherwise it is retried when an extension has to be built again, or when a program opens the database for
    /// writing. ``ExtensionError/notDerived(path:name:table:after:upTo:reason:)`` names the rows that cannot be derived. Other extensions
    /// are still built.
    case failed(any Error)
}

extension SharedDatabase {
    /// Drops the triggers of all extensions that are derived from a table. The extensions are built again by the next write of a program
    /// that declares them, or when such a program opens the database.
    ///
    /// Call it before a schema change that SQLite refuses because a trigger names the column (`ALTER TABLE … DROP COLUMN`), in the same
    /// transaction. Migrations of a ``Schema`` do not need it: if a migration fails for this reason, the extension is detached and the
    /// migration is run again.
    ///
    /// - throws: ``ExtensionError/newerFormat(path:format:)``, `DatabaseError`.
    public static func detachExtensions(of table: String, in db: Database) throws {
        for stored in try StoredExtension.fetchAll(db) where stored.baseTable.lowercased() == table.lowercased() {
            try ExtensionRegistry.detach(stored, db)
        }
    }
}

extension SharedExtension {
    /// Checks that the derived rows are complete and correct in the current transaction of `db` (rule E8).
    ///
    /// - throws: ``ExtensionError``, `DatabaseError`.
    public func checkIsReady(_ db: Database) throws { _ = try stored(db) }

    /// Returns the stored extension if it is ready.
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
