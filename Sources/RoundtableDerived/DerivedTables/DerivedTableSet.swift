import Foundation
import GRDB

// Rule E4: A program declares a *set*: derived tables with name, version and configuration, and the set's revision. A read-write opener
// compares it with what is stored, before it writes anything. At the stored revision, all must be equal in names, versions and
// fingerprints; a lower one is too new a database; a higher one upgrades (E5), unless a derived table has a lower version, or the same one
// with another fingerprint. A schema of which nothing is known declares no set. Read-only openers are not compared; each use is (E8).

/// The derived tables that every program which writes a database declares (rule E4).
///
/// Programs of one revision must declare the same derived tables. To add, change or drop a derived table, raise the revision. If a derived table
/// changes, raise its version, too. The first program that opens the database with the new revision upgrades it. Programs of an earlier
/// revision that have the database open continue to write, because the database itself derives the rows. When such a program next opens the
/// database for writing, it gets an error that says that it is too old.
public struct DerivedTableSet: Sendable {
    public let revision: Int
    public let tables: [any DerivedTable]

    /// - Parameters:
    ///   - revision: 1 for the first set, and higher for each changed set.
    ///   - tables: the derived tables, in any order. Their names must differ.
    public init(revision: Int, _ tables: [any DerivedTable]) {
        precondition(revision > 0, "the revision of a set of derived tables is above 0")
        self.revision = revision
        self.tables = tables
    }

    private init() {
        revision = 0
        tables = []
    }

    /// The set of a program that declares no derived tables.
    static let empty = DerivedTableSet()

    var described: [DescribedDerivedTable] { tables.map(DescribedDerivedTable.init) }

    /// Drops the triggers of all derived tables that are derived from a table. The derived tables are built again by the next write of a program
    /// that declares them, or when such a program opens the database.
    ///
    /// Call it before a schema change that SQLite refuses because a trigger names the column (`ALTER TABLE … DROP COLUMN`), in the same
    /// transaction. Migrations of a ``SharedSchema`` do not need it: if a migration fails for this reason, the derived table is detached and the
    /// migration is run again.
    ///
    /// - throws: ``DerivedTableError/newerFormat(path:format:)``, `DatabaseError`.
    public static func detach(from table: String, in db: Database) throws {
        for stored in try StoredDerivedTable.fetchAll(db) where stored.baseTable.lowercased() == table.lowercased() {
            try DerivedTableRegistry.detach(stored, db)
        }
    }
}

/// The properties of a declared derived table.
struct DescribedDerivedTable: Sendable {
    let name: String
    let version: Int
    let definition: DerivedTableDefinition
    let functions: [DatabaseFunction]
    var fingerprint: String { definition.fingerprint }

    init(_ given: any DerivedTable) {
        name = given.name
        version = given.version
        definition = given.definition
        functions = given.functions
    }
}
