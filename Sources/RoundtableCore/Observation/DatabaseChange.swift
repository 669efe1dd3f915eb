import Foundation

/// One commit to a shared database, or several commits that are reported as one.
///
/// A change says what *may* have been written: its tables are those that the statements of the transaction could write, whether or not
/// they did.
public struct DatabaseChange: Sendable, Hashable {
    /// The number of the last commit that this change reports, in SQLite's own count of the commits to this database. It is the same in
    /// all processes. Commits that only write Roundtable's own tables are counted, but not reported.
    ///
    /// The count starts again when the first process opens a database that no other process has open, and after some crashes, when SQLite
    /// rebuilds the wal-index. For observers that run meanwhile it continues to grow. It is therefore no bookmark: to continue after a
    /// restart, see ``HistoryToken``.
    public var sequence: UInt64

    /// The author of the commit: the name given to ``SharedDatabase/open(at:schema:as:options:)``. nil when it is not known, and when
    /// commits of several authors are reported as one.
    public var author: String?

    /// The process that made the commit; nil when it is not known, and when commits of several processes are reported as one.
    public var pid: Int32?

    /// Whether this very `SharedDatabase`, or a raw handle of it, made the commit, or all of the commits.
    public var isOwn: Bool

    /// The tables that may have been written.
    public var tables: Tables

    /// When the commit was made; for several commits, when the last one was made. For unrecorded commits, when they were detected.
    public var time: Date

    /// How much is known of the change.
    public var detail: Detail

    /// The tables that a change may have written.
    public enum Tables: Sendable, Hashable {
        /// Only these tables may have been written. Tables of attached databases are named like those of the main one; tables of the
        /// history and of the outbox are left out. Names that begin with `roundtable_ext` are those of derived tables: tables that are
        /// written together with the table that they are derived from.
        case some(Set<String>)
        /// Anything may have been written, the schema included.
        case fullDatabase
    }

    /// How much is known of a change.
    public enum Detail: String, Sendable, Hashable, Codable {
        /// One commit, with everything that its record says.
        case commit
        /// Several commits, reported as one, for example because the consumer was slow or the database was suspended.
        case several
        /// Commits without a record: anything may have changed. They were made by a program that does not use Roundtable, by a process
        /// that died, by more processes than there are places for, or by a raw handle of which it is not known which commits are its own; or the
        /// consumer was so far behind that the records were overwritten.
        case unrecorded
    }

    /// The names of the tables; nil when any table may have been written. Those of derived tables are left out: ``tables`` has them.
    public var tableNames: Set<String>? {
        switch tables {
        case .some(let names): names.subtracting(tables.derivedTables)
        case .fullDatabase: nil
        }
    }
}

extension DatabaseChange: CustomStringConvertible {
    public var description: String {
        let who = author.map { "'\($0)'" } ?? (detail == .several ? "several" : "unknown")
        return
            "#\(sequence) \(who)\(pid.map { " (pid \($0))" } ?? ""): \(tables)\(detail == .commit ? "" : ", \(detail)")"
    }
}

extension DatabaseChange.Tables: CustomStringConvertible {
    /// The tables as text for people. Derived tables are not listed one by one.
    public var description: String { listed ?? "any table" }

    /// The tables as text; nil when any table may have been written.
    package var listed: String? {
        guard case .some(let names) = self else { return nil }
        let derived = derivedTables
        if derived.isEmpty { return names.sorted().joined(separator: ", ") }
        let derivedTables = Set(derived.compactMap(InternalTables.derivedTableName(ofTable:))).sorted().joined(
            separator: ", "
        )
        let others = names.subtracting(derived)
        if others.isEmpty { return derivedTables.isEmpty ? "derived tables" : "derived tables (\(derivedTables))" }
        return others.sorted().joined(separator: ", ") + ", and derived tables"
    }

    /// The derived tables, with their parts, and the tables that list them.
    package var derivedTables: Set<String> {
        guard case .some(let names) = self else { return [] }
        return names.filter { $0.hasPrefix(InternalTables.derivedTables) }
    }
}

extension DatabaseChange {
    /// Merges the changes into one; empty if there are none.
    static func merged(_ changes: [DatabaseChange]) -> [DatabaseChange] {
        guard var merged = changes.first else { return [] }
        for change in changes.dropFirst() { merged.merge(change) }
        return [merged]
    }

    /// Merges a later change into this one.
    mutating func merge(_ later: DatabaseChange) {
        sequence = later.sequence
        time = later.time
        if author != later.author { author = nil }
        if pid != later.pid { pid = nil }
        isOwn = isOwn && later.isOwn
        tables = tables.union(later.tables)
        detail = detail == .unrecorded || later.detail == .unrecorded ? .unrecorded : .several
    }
}

extension DatabaseChange.Tables {
    /// The tables of a transaction that may have written `names`. Roundtable's own tables are left out, because they are not reported.
    init(touching names: some Sequence<String>) {
        self = .some(Set(names.lazy.filter { !InternalTables.isUnreported($0) }))
    }

    /// Whether the change has written no table that can be observed.
    var isEmpty: Bool { self == .some([]) }

    package func union(_ other: Self) -> Self {
        guard case .some(let names) = self, case .some(let others) = other else { return .fullDatabase }
        return .some(names.union(others))
    }
}
