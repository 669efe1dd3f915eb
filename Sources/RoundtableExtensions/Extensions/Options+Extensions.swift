import GRDB
import RoundtableCore

extension SharedDatabase.Options {
    /// Extensions of this process alone, which store nothing in the database. They are for processes that open the database
    /// read-only, and for programs that are the only process that writes to it. While another process has the database open
    /// for writing too, opening and using these extensions fails.
    ///
    /// They are queried like other extensions. Each connection derives its own copy at the first query, in memory or in
    /// temporary files, and rebuilds all of it when the database has changed since.
    public var temporaryExtensions: [any SharedExtension] {
        get { extensionOptions.temporary }
        set { extensionOptions.temporary = newValue }
    }

    private struct ExtensionOptions: Sendable {
        var temporary: [any SharedExtension] = []
    }

    private var extensionOptions: ExtensionOptions {
        get { features[ExtensionOptions.self] ?? ExtensionOptions() }
        set { features[ExtensionOptions.self] = newValue }
    }
}

extension Schema {
    /// The schema that these migrations make, and the extensions that come with it.
    ///
    /// - Parameters:
    ///   - migrator: the migrations of this program.
    ///   - mergedMigrations: see ``init(_:merging:)``.
    ///   - extensions: the extensions that every program which writes this database declares; nil for none. Missing extensions are
    ///     created when a program opens the database for writing, after the migrations: see ``ExtensionSet``.
    public init(_ migrator: DatabaseMigrator, merging mergedMigrations: Set<String> = [], extensions: ExtensionSet?) {
        self.init(migrator, merging: mergedMigrations)
        features[ExtensionSet.self] = extensions
    }

    /// The expected extensions; nil accepts those that the database has.
    var extensions: ExtensionSet? { isUnmanaged ? nil : features[ExtensionSet.self] ?? .empty }
}
