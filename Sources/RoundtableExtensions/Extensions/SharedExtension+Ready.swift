import GRDB
import RoundtableCore

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
