import GRDB

/// What a program expects of the database's schema, and how to get there.
public struct Schema: Sendable {
    let migrator: DatabaseMigrator?
    let mergedMigrations: Set<String>
    /// What the program declares for features.
    package var features = FeatureValues()

    /// The schema that these migrations make.
    ///
    /// Read-write processes apply the missing ones when they open, one process at a time. The migrator's
    /// `eraseDatabaseOnSchemaChange` must not be set: opening throws
    /// ``SharedDatabaseError/erasesDatabaseOnSchemaChange(path:)``.
    ///
    /// - Parameters:
    ///   - migrator: the migrations of this program.
    ///   - mergedMigrations: identifiers that migrations of `migrator` merge (GRDB's `registerMigration(_:merging:migrate:)`). GRDB
    ///     does not report them. A database that still has them is old, and not newer than this program.
    public init(_ migrator: DatabaseMigrator, merging mergedMigrations: Set<String> = []) {
        self.migrator = migrator
        self.mergedMigrations = mergedMigrations
    }

    private init() {
        migrator = nil
        mergedMigrations = []
    }

    /// Whether the program accepts any schema.
    package var isUnmanaged: Bool { migrator == nil }

    /// Accepts any schema and extensions. For tools, and for programs that set up their schema themselves.
    public static let unmanaged = Schema()
}

/// How a database's schema compares to what a program expects.
enum SchemaState: Equatable {
    case current
    /// The database has none of the migrations.
    case absent
    case tooOld(missing: [String])
    case tooNew(unknown: [String])
}

extension DatabaseMigrator {
    /// The identifiers of the migrations that are applied.
    ///
    /// GRDB's `appliedIdentifiers` queries its table, and looks for the table only when that fails. If another process creates the
    /// table between the two, the failure is thrown. This method looks for the table first, because an existing table is not dropped.
    func appliedWhileOthersMigrate(_ db: Database) throws -> Set<String> {
        let sql = "SELECT EXISTS (SELECT * FROM sqlite_master WHERE type = 'table' AND name = 'grdb_migrations')"
        return try Bool.fetchOne(db, sql: sql) == true ? appliedIdentifiers(db) : []
    }
}

extension Schema {
    /// Compares the applied migrations to those that this program knows (rules S6, S7).
    func state(_ db: Database) throws -> SchemaState {
        guard let migrator else { return .current }
        let applied = try migrator.appliedWhileOthersMigrate(db)
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

    func check(path: String) throws {
        if migrator?.eraseDatabaseOnSchemaChange == true {
            throw SharedDatabaseError.erasesDatabaseOnSchemaChange(path: path)
        }
    }
}
