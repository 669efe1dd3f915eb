import GRDB
import RoundtableCore

extension ExtensionSet {
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
