import GRDB
import RoundtableCore

extension DerivedTable {
    // Rule E8: A use of a derived table requires, in the same transaction, that `roundtable_extensions` has it with the expected version
    // and fingerprint in the state `ready`, that `format` in `roundtable_extension_settings` is not above 1, and that the base table has
    // the triggers `insert`, `move` and `delete`. Otherwise its rows may be wrong.

    /// Returns the stored derived table if its rows are complete and correct in the current transaction of `db` (rule E8).
    ///
    /// - throws: ``DerivedTableError``, `DatabaseError`.
    func stored(_ db: Database) throws -> StoredDerivedTable {
        guard
            let stored = try StoredDerivedTable.fetch(db, name)
                ?? TemporaryDerivedTable.fetch(db, DescribedDerivedTable(self))
        else {
            throw DerivedTableError.notRegistered(path: db.filePath, name: name)
        }
        if stored.version != version {
            let disagreement = DerivedTableDifference.Disagreement.version(declared: version, stored: stored.version)
            throw DerivedTableError.differs(path: db.filePath, name: name, disagreement)
        }
        if stored.fingerprint != definition.fingerprint {
            throw DerivedTableError.differs(path: db.filePath, name: name, .definition(definition, stored))
        }
        switch stored.state {
        case .ready:
            if stored.schema == "main" { try DerivedTableFollowing.check(stored, db) }
            return stored
        case .building:
            throw DerivedTableError.building(path: db.filePath, name: name, done: stored.done, total: stored.total)
        case .missing:
            throw DerivedTableError.baseTableMissing(path: db.filePath, name: name, table: stored.baseTable)
        }
    }
}
