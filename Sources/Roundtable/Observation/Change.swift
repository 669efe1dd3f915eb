import Foundation

/// One commit to a shared database, or several that are told as one.
///
/// A change says what *may* have been written: tables are those that the statements of a transaction could write, whether
/// they did or not.
public struct Change: Sendable, Hashable {
    /// The number of the last commit that this tells of, as SQLite counts the commits to this database: the same in all
    /// processes. Commits that only write Roundtable's own tables have numbers, and are not told. It starts anew when the first process opens a database that nobody has open, and after
    /// some crashes, when SQLite rebuilds the wal-index; for those that observe meanwhile it goes on counting up. So it is no bookmark: to go
    /// on after a restart, see ``HistoryToken``.
    public var sequence: UInt64

    /// Who made the commit: the name given to ``SharedDatabase/open(at:schema:as:options:)``. nil when it is not known, and when
    /// commits of several authors are told as one.
    public var author: String?

    /// The process that made the commit; nil when it is not known, and when commits of several processes are told as one.
    public var pid: Int32?

    /// Whether this very `SharedDatabase` made the commit, or all of the commits.
    public var isOwn: Bool

    public var tables: Tables

    /// When the commit was made; of several, the last. When it was noticed, if nobody recorded it.
    public var time: Date

    public var detail: Detail

    /// Where something may have been written.
    public enum Tables: Sendable, Hashable {
        /// In these tables only. Tables of attached databases are named like those of the main one; those of the history and of the outbox are left out.
        /// Names that begin with `roundtable_ext` are those of extensions: of tables that are written with the one that they are derived from.
        case some(Set<String>)
        /// Anywhere, the schema included.
        case fullDatabase
    }

    /// How much is known.
    public enum Detail: String, Sendable, Hashable, Codable {
        /// One commit, and all that is recorded of it.
        case commit
        /// Several commits, told as one because the consumer was slow.
        case several
        /// Commits that nobody recorded: anything may have changed. Made by a program that does not use Roundtable, or by a
        /// process that died, or by more processes than there are places for; or the consumer was so far behind that the records
        /// were overwritten.
        case unrecorded
    }

    /// The tables; nil: any.
    public var tableNames: Set<String>? {
        switch tables {
        case .some(let names): names
        case .fullDatabase: nil
        }
    }
}

extension Change: CustomStringConvertible {
    public var description: String {
        let who = author.map { "'\($0)'" } ?? (detail == .several ? "several" : "unknown")
        return
            "#\(sequence) \(who)\(pid.map { " (pid \($0))" } ?? ""): \(tables)\(detail == .commit ? "" : ", \(detail)")"
    }
}

extension Change.Tables: CustomStringConvertible {
    /// For reading: tables of extensions are not listed one by one.
    public var description: String { listed ?? "any table" }

    /// nil: any.
    package var listed: String? {
        guard case .some(let names) = self else { return nil }
        let derived = extensionTables
        if derived.isEmpty { return names.sorted().joined(separator: ", ") }
        let extensions = Set(derived.compactMap(ExtensionNames.name(ofTable:))).sorted().joined(separator: ", ")
        let others = names.subtracting(derived)
        if others.isEmpty { return extensions.isEmpty ? "extensions" : "extensions (\(extensions))" }
        return others.sorted().joined(separator: ", ") + ", and extensions"
    }

    /// Those that extensions keep, and that tell which there are.
    package var extensionTables: Set<String> {
        guard case .some(let names) = self else { return [] }
        return names.filter { $0.hasPrefix(ExtensionNames.prefix) }
    }
}

extension Change {
    /// All of these told as one; none if there are none.
    static func merged(_ changes: [Change]) -> [Change] {
        guard var merged = changes.first else { return [] }
        for change in changes.dropFirst() { merged.merge(change) }
        return [merged]
    }

    /// This change and a later one, told as one.
    mutating func merge(_ later: Change) {
        sequence = later.sequence
        time = later.time
        if author != later.author { author = nil }
        if pid != later.pid { pid = nil }
        isOwn = isOwn && later.isOwn
        tables = tables.union(later.tables)
        detail = detail == .unrecorded || later.detail == .unrecorded ? .unrecorded : .several
    }
}

extension Change.Tables {
    /// Of a transaction that may have written these: Roundtable's own tables are nobody's business.
    init(touching names: some Sequence<String>) {
        let prefixes = [HistoryTables.prefix, OutboxTables.prefix]
        self = .some(Set(names.lazy.filter { name in !prefixes.contains(where: name.hasPrefix) }))
    }

    /// Nothing that anybody observes.
    var isEmpty: Bool { self == .some([]) }

    func union(_ other: Self) -> Self {
        guard case .some(let names) = self, case .some(let others) = other else { return .fullDatabase }
        return .some(names.union(others))
    }
}
