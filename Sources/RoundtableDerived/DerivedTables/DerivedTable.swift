import GRDB
import RoundtableCore

/// Tables that are derived from one of your tables. They are kept correct within every write transaction, by every program that writes.
///
/// Declare the derived tables of a database with its schema, the same in every program that writes it:
///
/// ```swift
/// let spent = AggregateTable("spent", version: 1, of: "expense", groupedBy: [.init("category")], values: [.init("cents")])
/// let schema = SharedSchema(migrator, derivedTables: DerivedTableSet(revision: 1, [spent]))
/// ```
///
/// ``MaterializedView``, ``SecondaryIndex``, ``FullTextSearch`` and ``AggregateTable`` are ready to use. Anything else that follows from a table
/// row by row can be a derived table of your own. See <doc:DerivedTables>.
public protocol DerivedTable: Sendable {
    /// The name in the database: at most 60 letters, digits and single underscores of ASCII. It begins with a letter, and does not end with
    /// an underscore.
    var name: String { get }

    /// The version of the definition. Raise it when the definition changes. All rows are then derived again.
    var version: Int { get }

    /// The definition of the derived rows and tables.
    var definition: DerivedTableDefinition { get }

    /// The functions that the definition's expressions call in addition to SQLite's own. They must be pure. Programs that do not have them,
    /// such as the `sqlite3` shell, cannot write the table: their statements fail, and change nothing.
    var functions: [DatabaseFunction] { get }
}

extension DerivedTable {
    public var functions: [DatabaseFunction] { [] }

    /// The table that holds the derived rows: for each row that the filter accepts, its primary key and the derived columns. You can use it
    /// in your own queries. Only the derived table writes it.
    public var tableName: String { DerivedTableNames.projection(name) }

    var table: String { tableName.sqlName }

    /// Returns the quoted name of a further table of the derived table.
    func part(_ part: String) -> String { DerivedTableNames.part(name, part).sqlName }
}
