import GRDB
import RoundtableCore

extension SharedDatabase.Options {
    /// Derived tables of this process alone, which store nothing in the database. They are for processes that open the database
    /// read-only, and for programs that are the only process that writes to it. While another process has the database open
    /// for writing too, opening and using these derived tables fails.
    ///
    /// They are queried like other derived tables. Each connection derives its own copy at the first query, in memory or in
    /// temporary files, and rebuilds all of it when the database has changed since.
    public var temporaryDerivedTables: [any DerivedTable] {
        get { features[[any DerivedTable].self] ?? [] }
        set { features[[any DerivedTable].self] = newValue }
    }
}

extension SharedSchema {
    /// The schema that these migrations make, and the derived tables that come with it.
    ///
    /// - Parameters:
    ///   - migrator: the migrations of this program.
    ///   - mergedMigrations: see ``init(_:merging:)``.
    ///   - derivedTables: the derived tables that every program which writes this database declares; nil for none. Missing derived tables are
    ///     created when a program opens the database for writing, after the migrations: see ``DerivedTableSet``.
    public init(
        _ migrator: DatabaseMigrator,
        merging mergedMigrations: Set<String> = [],
        derivedTables: DerivedTableSet?
    ) {
        self.init(migrator, merging: mergedMigrations)
        features[DerivedTableSet.self] = derivedTables
    }

    /// The expected derived tables; nil accepts those that the database has.
    var derivedTables: DerivedTableSet? { isUnmanaged ? nil : features[DerivedTableSet.self] ?? .empty }
}
