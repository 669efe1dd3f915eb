import Foundation

/// An error of a derived table.
public enum DerivedTableError: Error, Equatable, Sendable {
    /// The database has the same revision of the set of derived tables, but with other derived tables. Nothing was written. Put the set
    /// into a module that all programs share.
    case setDiffers(path: String, revision: Int, DerivedTableDifference)

    /// The database has a later revision of the set: this program is older than the one that upgraded it. Nothing was written. Tools that
    /// know no derived tables can open the database with ``SharedSchema/unmanaged``.
    case setTooOld(path: String, declared: Int, stored: Int, DerivedTableDifference)

    /// The revision was raised, but these derived tables have other definitions in the same version, or lower versions. Nothing was written.
    case versionNotRaised(path: String, DerivedTableDifference)

    /// The derived table cannot be created as declared. Nothing was written.
    case notUsable(name: String, reason: String)

    /// The derived table is not in the database.
    case notRegistered(path: String, name: String)

    /// The database has another version, or another definition, of the derived table.
    case differs(path: String, name: String, DerivedTableDifference.Disagreement)

    /// The derived rows are not complete yet. A process is building them, or the next process that opens the database for writing
    /// continues. This is normal after an upgrade. `roundtable status` shows the progress.
    case building(path: String, name: String, done: Int, total: Int)

    /// The derived table cannot be completed, because some rows cannot be derived: those after the key `after`, up to and including the key
    /// `upTo`. Keys are SQL literals. nil is the beginning or the end of the table. Typical causes are `NOT NULL`, a unique index, and
    /// invalid JSON.
    case notDerived(path: String, name: String, table: String, after: String?, upTo: String?, reason: String)

    /// A program has recreated the base table, has renamed its key, or has dropped triggers. The next write of a program that declares the
    /// derived table builds it again. In a migration of another library, call ``DerivedTableSet/detach(from:in:)`` first.
    case notFollowing(path: String, name: String, table: String)

    /// The base table is gone, or no longer fits the definition.
    case baseTableMissing(path: String, name: String, table: String)

    /// Another process may write, and a temporary derived table cannot follow its changes.
    case temporaryNotAllowed(path: String, name: String, reason: String)

    /// The stored derived tables were written by a newer version of Roundtable.
    case newerFormat(path: String, format: Int)
}

extension DerivedTableError: CustomStringConvertible, LocalizedError {
    public var description: String {
        switch self {
        case .setDiffers(let path, let revision, let difference):
            """
            \(path): revision \(revision) of the set of derived tables is not the same in this program and in the database: \(difference). \
            Declare the same set in every program that writes; if it is to change, raise its revision.
            """
        case .setTooOld(let path, 0, let stored, _):
            """
            \(path): has derived tables, in revision \(stored) of their set, and this program declares none. Give their set to \
            Schema(_:derivedTables:), as the other programs that write do, or open the database read-only.
            """
        case .setTooOld(let path, let declared, let stored, let difference):
            """
            \(path): has revision \(stored) of the set of derived tables, and this program declares revision \(declared)\
            \(difference.isEmpty ? "" : ": \(difference)"). Update this program, or open the database read-only.
            """
        case .versionNotRaised(let path, let difference):
            "\(path): \(difference). Raise the version of a derived table with each change of its definition."
        case .notUsable(let name, let reason):
            "the derived table '\(name)' cannot be used: \(reason)"
        case .notRegistered(let path, let name):
            """
            \(path): has no derived table '\(name)'. Declare it in the Schema that the database is opened for writing with; a read-only process \
            waits until one has, or declares it in Options.temporaryDerivedTables for itself.
            """
        case .differs(let path, let name, let disagreement):
            """
            \(path): \(DerivedTableDifference(name, disagreement)). The database was upgraded by another program: use its version of the derived table.
            """
        case .building(let path, let name, let done, let total):
            """
            \(path): the derived table '\(name)' is being built, \(Self.rows(done, of: total)) so far. Try again later; if no process \
            continues it, open the database for writing.
            """
        case .notDerived(let path, let name, let table, let after, let upTo, let reason):
            """
            \(path): the derived table '\(name)' cannot be derived from rows of '\(table)', \(Self.range(after, upTo)): \(reason). Change these rows, \
            and open the database for writing; or declare a derived table that takes them, with a higher version and revision of the set.
            """
        case .notFollowing(let path, let name, let table):
            """
            \(path): the derived table '\(name)' does not follow the table '\(table)' any more, which was recreated or renamed, or whose triggers were \
            dropped. The next write of a program that declares the derived table rebuilds it; if none runs, open the database for writing.
            """
        case .baseTableMissing(let path, let name, let table):
            """
            \(path): the table '\(table)', from which the derived table '\(name)' is derived, was dropped, or has lost a column that is needed. Change the \
            derived table with the schema, and raise its version and the revision of the set.
            """
        case .temporaryNotAllowed(let path, let name, let reason):
            """
            \(path): the temporary derived table '\(name)' cannot be used: \(reason). Declare it in the Schema, so that every writer keeps it \
            up to date, or use it in a process that opens the database read-only.
            """
        case .newerFormat(let path, let format):
            "\(path): the derived tables have format \(format), made by a newer version of Roundtable. Update this program."
        }
    }

    public var errorDescription: String? {
        switch self {
        case .setTooOld, .newerFormat: "The database was changed by a newer version of this program."
        case .building: "The database is being prepared."
        default: "A part of the database cannot be used by this program."
        }
    }

    public var recoverySuggestion: String? {
        switch self {
        case .setTooOld, .newerFormat: "Update this program."
        case .building: "Try again later."
        default: nil
        }
    }

    /// - parameter total: 0 as long as nobody has counted the rows.
    private static func rows(_ done: Int, of total: Int) -> String {
        total == 0 ? "\(done) rows" : "\(done) of about \(total) rows"
    }

    private static func range(_ after: String?, _ upTo: String?) -> String {
        let end = upTo.map { "key \($0)" } ?? "the last one"
        return after.map { "after key \($0) up to \(end)" } ?? "up to \(end)"
    }
}

extension DerivedTableDifference {
    init(_ name: String, _ disagreement: Disagreement) { different = [name: disagreement] }
}
