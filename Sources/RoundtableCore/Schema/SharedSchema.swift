import GRDB

/// The database schema that a program expects, and the migrations that create it.
public struct SharedSchema: Sendable {
    let migrator: DatabaseMigrator?
    /// Whether a database with another schema is erased first.
    let erasesOnChange: Bool
    let mergedMigrations: Set<String>
    /// What the program declares for features.
    package var features = FeatureValues()

    /// The schema that these migrations make.
    ///
    /// Read-write processes apply the missing ones when they open, one process at a time. With the migrator's
    /// `eraseDatabaseOnSchemaChange`, a database with another schema is erased first (``SharedDatabase/erase(at:as:options:)``), if nobody else has it
    /// open; otherwise opening throws ``SharedDatabaseError/erasesDatabaseOnSchemaChange(path:names:)``.
    ///
    /// - Parameters:
    ///   - migrator: the migrations of this program.
    ///   - mergedMigrations: identifiers that migrations of `migrator` merge (GRDB's `registerMigration(_:merging:migrate:)`). GRDB
    ///     does not report them. A database that still has them is old, and not newer than this program.
    public init(_ migrator: DatabaseMigrator, merging mergedMigrations: Set<String> = []) {
        erasesOnChange = migrator.eraseDatabaseOnSchemaChange
        // GRDB itself would take Roundtable's tables and triggers for a change.
        var migrator = migrator
        migrator.eraseDatabaseOnSchemaChange = false
        self.migrator = migrator
        self.mergedMigrations = mergedMigrations
    }

    private init() {
        migrator = nil
        erasesOnChange = false
        mergedMigrations = []
    }

    /// Whether the program accepts any schema.
    package var isUnmanaged: Bool { migrator == nil }

    /// Accepts any schema and derived tables. For tools, and for programs that set up their schema themselves.
    public static let unmanaged = SharedSchema()
}

extension SharedSchema {
    /// Whether the schema of a database is not the one that these migrations make, as GRDB compares them, but without Roundtable's own tables
    /// and triggers.
    ///
    /// - parameter configuration: of a database in memory, in which the migrations are run.
    func hasChanged(_ db: Database, _ configuration: Configuration) throws -> Bool {
        guard let migrator else { return false }
        let applied = Set(try migrator.appliedWhileOthersMigrate(db))
        if !unknown(among: applied).isEmpty { return true }
        guard let last = migrator.migrations.last(where: applied.contains) else { return false }
        var configuration = configuration
        configuration.readonly = false
        (configuration.targetQueue, configuration.writeTargetQueue) = (nil, nil)
        let expected = try DatabaseQueue(configuration: configuration)
        try migrator.migrate(expected, upTo: last)
        return try expected.read(Self.objects) != Self.objects(db)
    }

    private static func objects(_ db: Database) throws -> Set<Row> {
        let sql = """
            SELECT type, name, tbl_name, sql FROM main.sqlite_master
            WHERE NOT (name GLOB 'sqlite_*' OR name GLOB 'grdb_*' OR name GLOB 'roundtable_*' OR tbl_name GLOB 'roundtable_*')
            """
        return try Set(Row.fetchAll(db, sql: sql))
    }
}
