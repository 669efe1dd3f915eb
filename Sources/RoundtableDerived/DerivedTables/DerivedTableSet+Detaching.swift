import GRDB
import RoundtableCore

extension DerivedTableSet {
    /// Drops the triggers of all derived tables that are derived from a table. The derived tables are built again by the next write of a program
    /// that declares them, or when such a program opens the database.
    ///
    /// Call it before a schema change that SQLite refuses because a trigger names the column (`ALTER TABLE … DROP COLUMN`), in the same
    /// transaction. Migrations of a ``SharedSchema`` do not need it: if a migration fails for this reason, the derived table is detached and the
    /// migration is run again.
    ///
    /// - throws: ``DerivedTableError/newerFormat(path:format:)``, `DatabaseError`.
    public static func detach(from table: String, in db: Database) throws {
        for stored in try StoredDerivedTable.fetchAll(db) where stored.baseTable.lowercased() == table.lowercased() {
            try DerivedTableRegistry.detach(stored, db)
        }
    }
}
