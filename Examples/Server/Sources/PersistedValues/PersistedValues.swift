import GRDB

/// The table of `SharedPersistDriver`. All programs create it in a migration, also those without Hummingbird.
public enum PersistedValues {
    public static func createTable(in db: Database) throws {
        try db.create(table: "persisted_value", options: .withoutRowID) { table in
            table.column("key", .text).primaryKey()
            // JSON.
            table.column("value", .blob).notNull()
            // In seconds since 1970; null for values that do not expire.
            table.column("expires", .double).indexed()
        }
    }
}
