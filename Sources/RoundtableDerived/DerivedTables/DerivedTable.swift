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

    // Rule E8: A use of a derived table requires, in the same transaction, that `roundtable_extensions` has it with the expected version
    // and fingerprint in the state `ready`, that `format` in `roundtable_extension_settings` is not above 1, and that the base table has
    // the triggers `insert`, `move` and `delete`. Otherwise its rows may be wrong.

    /// Returns the stored derived table if its rows are complete and correct in the current transaction of `db` (rule E8).
    ///
    /// - throws: ``DerivedTableError``, `DatabaseError`.
    func stored(_ db: Database) throws -> StoredDerivedTable {
        guard
            let stored = try StoredDerivedTable.fetch(db, name)
                ?? TemporaryDerivedTable.fetch(db, DescribedDerivedTable(self))
        else {
            throw DerivedTableError.notRegistered(path: db.filePath, name: name)
        }
        if stored.version != version {
            let disagreement = DerivedTableDifference.Disagreement.version(declared: version, stored: stored.version)
            throw DerivedTableError.differs(path: db.filePath, name: name, disagreement)
        }
        if stored.fingerprint != definition.fingerprint {
            throw DerivedTableError.differs(path: db.filePath, name: name, .definition(definition, stored))
        }
        switch stored.state {
        case .ready:
            if stored.schema == "main" { try DerivedTableFollowing.check(stored, db) }
            return stored
        case .building:
            throw DerivedTableError.building(path: db.filePath, name: name, done: stored.done, total: stored.total)
        case .missing:
            throw DerivedTableError.baseTableMissing(path: db.filePath, name: name, table: stored.baseTable)
        }
    }
}
