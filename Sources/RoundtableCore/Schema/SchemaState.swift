import GRDB

/// How a database's schema compares to what a program expects.
enum SchemaState: Equatable {
    case current
    /// The database has none of the migrations.
    case absent
    case tooOld(missing: [String])
    case tooNew(unknown: [String])
}

extension DatabaseMigrator {
    /// The identifiers of the migrations that are applied, in the order in which they were.
    ///
    /// GRDB's `appliedIdentifiers` queries its table, and looks for the table only when that fails. If another process creates the
    /// table between the two, the failure is thrown. This method looks for the table first, because an existing table is not dropped.
    func appliedWhileOthersMigrate(_ db: Database) throws -> [String] {
        let query = "SELECT identifier FROM main.grdb_migrations ORDER BY rowid"
        if db.knowsTable("grdb_migrations"), let applied = try db.directTexts(query) { return applied }
        let sql = "SELECT EXISTS (SELECT * FROM sqlite_master WHERE type = 'table' AND name = 'grdb_migrations')"
        return try Bool.fetchOne(db, sql: sql) == true ? String.fetchAll(db, sql: query) : []
    }
}

extension SharedSchema {
    // Rule S7: A read-only opener answers *not created* for a file that is absent, empty or without migrations, and *too old* for a prefix
    // of them.

    /// Compares the applied migrations to those that this program knows (rules S6, S7).
    func state(_ db: Database) throws -> SchemaState {
        guard let migrator else { return .current }
        return state(withApplied: try migrator.appliedWhileOthersMigrate(db))
    }

    /// The state of a database with these migrations.
    func state(withApplied applied: [String]) -> SchemaState {
        guard let migrator else { return .current }
        let applied = Set(applied)
        let unknown = unknown(among: applied)
        if !unknown.isEmpty { return .tooNew(unknown: unknown) }
        let missing = migrator.migrations.filter { !applied.contains($0) }
        if missing.isEmpty { return .current }
        return applied.isEmpty ? .absent : .tooOld(missing: missing)
    }

    /// The applied migrations that this program does not know, in alphabetical order.
    func unknown(among applied: Set<String>) -> [String] {
        applied.subtracting(migrator?.migrations ?? []).subtracting(mergedMigrations).sorted()
    }
}
