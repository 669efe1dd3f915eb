import GRDB
import RoundtableCore
import RoundtableTables

/// The columns whose old values the history keeps with a change: of rows that are deleted, and if asked, of rows that are updated.
///
/// ```swift
/// try await db.history.enable(for: "player", keeping: ["serverID"])
/// ```
///
/// A value of more than 1,000,000 bytes is not kept. The bytes of a text are those in the encoding of the database, which is UTF-8 unless
/// `PRAGMA encoding` has changed it. Old values stay in the file until the change is pruned.
public struct OldValuePolicy: Hashable, Sendable {
    /// The names of the columns. Generated columns can be kept, too.
    public var columns: Set<String>

    /// Whether the old values of updated rows are kept, and not only those of deleted and replaced rows.
    public var includesUpdates: Bool

    public init(columns: Set<String> = [], includesUpdates: Bool = false) {
        self.columns = columns
        self.includesUpdates = includesUpdates
    }

    /// The values that these columns had in rows that are deleted, or replaced.
    public static func deleted(_ columns: String...) -> OldValuePolicy { OldValuePolicy(columns: Set(columns)) }

    /// The values that these columns had in rows that are deleted or replaced, and before each update.
    public static func deletedAndUpdated(_ columns: String...) -> OldValuePolicy {
        OldValuePolicy(columns: Set(columns), includesUpdates: true)
    }
}

extension OldValuePolicy: ExpressibleByArrayLiteral {
    /// The values that these columns had in rows that are deleted, or replaced.
    public init(arrayLiteral columns: String...) { self.init(columns: Set(columns)) }
}

// Rule H13: *Old values.* `kept_columns` lists the columns whose values before a change are kept, as objects with `id`, `name` and `keep`:
// `deletions` (of rows that are deleted or replaced), `updates` (of those, and of each update), or `nothing` (no new ones). An id is never
// given twice in a table. Of several declarations, the one that keeps more wins.

/// A column whose old values are kept, or were kept (rule H13).
struct KeptColumn: Codable, Equatable {
    enum Extent: String, Codable {
        /// The values of former changes can be read. No new ones are kept.
        case nothing
        case deletions
        case updates
    }

    /// Identifies the column in the history's rows. It stays when the column is renamed.
    let id: Int
    /// The last known name of the column.
    var name: String
    var keep: Extent

    var isKept: Bool { keep != .nothing }
}

extension [KeptColumn] {
    /// Adds what a program declares. Of several declarations, the one that keeps more wins.
    ///
    /// - throws: ``HistoryError/cannotTrack(path:table:reason:)`` for a column that the table does not have.
    mutating func add(_ keeping: OldValuePolicy, of shape: TableShape, path: String) throws {
        for name in keeping.columns.sorted() {
            guard let column = shape.columns.first(where: { $0.name.lowercased() == name.lowercased() }) else {
                throw HistoryError.cannotTrack(
                    path: path,
                    table: shape.name,
                    reason: "it has no column '\(name)', whose old values are to be kept. Name columns of the table."
                )
            }
            let extent: KeptColumn.Extent = keeping.includesUpdates ? .updates : .deletions
            if let index = firstIndex(where: { $0.isKept && $0.name == column.name }) {
                if extent == .updates { self[index].keep = .updates }
            } else {
                // Only another program can have written an id to which nothing can be added.
                let (id, isTooLarge) = (map(\.id).max() ?? -1).addingReportingOverflow(1)
                append(KeptColumn(id: isTooLarge ? 0 : id, name: column.name, keep: extent))
            }
        }
    }

    /// Keeps no new values of the columns that are not among these.
    mutating func restrict(to names: Set<String>) {
        for index in indices where !names.contains(self[index].name) { self[index].keep = .nothing }
    }
}
