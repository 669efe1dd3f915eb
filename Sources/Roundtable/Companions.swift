/// The one place where the core meets the features by name, so that no writer can be without them.
enum Companions {
    /// The features that take part in every write, in the order in which they are called.
    static func ofWriter(_ extensions: ExtensionRegistry?) -> [any WriteCompanion] {
        var companions: [any WriteCompanion] = [HistoryStamp()]
        if let extensions, !extensions.extensions.isEmpty { companions.append(ExtensionKeeper(extensions)) }
        return companions
    }

    /// What lives as long as the database, in the order in which it is told that the database is suspended, resumed or closed.
    static func ofDatabase(_ database: SharedDatabase) -> [any DatabaseCompanion] {
        [database.handles, database.publishers, database.drains]
    }
}
