import GRDB

/// The database schema that a program expects, and the migrations that create it.
public struct SharedSchema: Sendable {
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

    /// Accepts any schema and derived tables. For tools, and for programs that set up their schema themselves.
    public static let unmanaged = SharedSchema()
}

extension SharedSchema {
    func check(path: String) throws {
        if migrator?.eraseDatabaseOnSchemaChange == true {
            throw SharedDatabaseError.erasesDatabaseOnSchemaChange(path: path)
        }
    }
}
