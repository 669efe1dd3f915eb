import GRDB
import RoundtableCore

/// Tables that are derived from one of your tables. They are kept correct within every write transaction, by every program that writes.
///
/// Declare the extensions of a database with its schema, the same in every program that writes it:
///
/// ```swift
/// let spent = Aggregate("spent", version: 1, of: "expense", groupedBy: [.init("category")], values: [.init("cents")])
/// let schema = Schema(migrator, extensions: ExtensionSet(revision: 1, [spent]))
/// ```
///
/// ``MaterializedView``, ``SecondaryIndex``, ``FullTextSearch`` and ``Aggregate`` are ready to use. Anything else that follows from a table
/// row by row can be an extension of your own. See <doc:Extensions>.
public protocol SharedExtension: Sendable {
    /// The name in the database: at most 60 letters, digits and single underscores of ASCII. It begins with a letter, and does not end with
    /// an underscore.
    var name: String { get }

    /// The version of the definition. Raise it when the definition changes. All rows are then derived again.
    var version: Int { get }

    /// The definition of the derived rows and tables.
    var definition: ExtensionDefinition { get }

    /// The functions that the definition's expressions call in addition to SQLite's own. They must be pure. Programs that do not have them,
    /// such as the `sqlite3` shell, cannot write the table: their statements fail, and change nothing.
    var functions: [DatabaseFunction] { get }
}

extension SharedExtension {
    public var functions: [DatabaseFunction] { [] }

    /// The table that holds the derived rows: for each row that the filter accepts, its primary key and the derived columns. You can use it
    /// in your own queries. Only the extension writes it.
    public var tableName: String { ExtensionNames.projection(name) }

    var table: String { tableName.sqlName }

    /// Returns the quoted name of a further table of the extension.
    func part(_ part: String) -> String { ExtensionNames.part(name, part).sqlName }
}
