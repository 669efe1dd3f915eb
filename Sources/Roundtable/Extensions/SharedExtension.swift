import GRDB

/// Tables that are derived from a table of yours, and kept true within every write transaction, by whatever program writes.
///
/// Declare the extensions of a database with its schema, the same in every program that writes it:
///
/// ```swift
/// let spent = Aggregate("spent", version: 1, of: "expense", groupedBy: [.init("category")], values: [.init("cents")])
/// let schema = Schema(migrator, extensions: ExtensionSet(revision: 1, [spent]))
/// ```
///
/// ``MaterializedView``, ``SecondaryIndex``, ``FullTextSearch`` and ``Aggregate`` are ready to use; anything else that follows from a table
/// row by row can be an extension of your own. See <doc:Extensions>.
public protocol SharedExtension: Sendable {
    /// By which the database knows it: letters, digits and single underscores, at most 60, beginning with a letter.
    var name: String { get }

    /// To be raised when the definition changes: all that is derived is then derived anew.
    var version: Int { get }

    /// What is derived, and how.
    var definition: ExtensionDefinition { get }

    /// What the definition's expressions call beside SQLite's own functions. They must be pure. Programs that do not have them, such as the
    /// `sqlite3` shell, cannot write the table: their statements fail, and change nothing.
    var functions: [DatabaseFunction] { get }
}

extension SharedExtension {
    public var functions: [DatabaseFunction] { [] }

    /// The table that holds what is derived: for each row that the filter lets through, its primary key and the derived columns. For use in
    /// queries of your own; only the extension writes it.
    public var tableName: String { ExtensionNames.projection(name) }

    var table: String { tableName.sqlName }

    /// The name of what is kept on top of the projection.
    func part(_ part: String) -> String { ExtensionNames.part(name, part).sqlName }
}
