import Foundation
import GRDB

/// One row that was inserted, updated or deleted, whoever did it.
public struct HistoryChange: Hashable, Sendable {
    /// What happened to the row.
    ///
    /// A row whose primary key is changed is a `delete` of the old key and an `insert` of the new one. A row that REPLACE puts
    /// in the place of one with the same key is an `insert`; rows with other keys that it removes are `delete`s.
    public enum Operation: String, Sendable, Codable, CaseIterable {
        case insert
        case update
        case delete
    }

    /// The position after this change. Changes that are read together have rising tokens, in the order of their commits.
    public let token: HistoryToken

    /// The same for all changes of one transaction, and different from those of all others. nil when a program wrote that does
    /// not use Roundtable.
    public let transaction: Int64?

    /// Who wrote: the name that a ``SharedDatabase`` was opened as. nil when it was a program that does not use Roundtable, such
    /// as the `sqlite3` shell.
    public let author: String?

    /// When the row was written, by the clock of the machine. Neither unique nor always rising.
    public let date: Date

    /// The table's name as it is now, should it have been renamed.
    public let table: String

    public let operation: Operation

    /// The values of the row's primary key, in the order of ``keyColumns``.
    public let key: [DatabaseValue]

    /// The names of the primary key's columns.
    public let keyColumns: [String]

    /// The columns that an `update` changed. nil when that is not known: not recorded, or a column was added meanwhile. Then
    /// any may have changed.
    public let columns: Set<String>?
}

extension HistoryChange {
    /// The primary key of a table that has an integer for it.
    public var id: Int64? { key.count == 1 ? Int64.fromDatabaseValue(key[0]) : nil }

    /// Counts the rows written to tracked tables since the history began. Rises with the order of commits, with gaps.
    public var sequence: Int64 { token.sequence }
}

/// Some changes, and where to go on.
public struct HistoryPage: Hashable, Sendable {
    /// In the order of the commits. A page ends where a transaction ends, unless one alone is longer than the limit.
    public let changes: [HistoryChange]
    /// Pass it to the next call.
    public let token: HistoryToken
    /// Whether there was more to read already.
    public let hasMore: Bool
}

/// What the history of a table records of an update.
public enum HistoryRecording: String, Sendable, Codable, CaseIterable {
    /// That a row was updated.
    case rows
    /// Also which columns it changed. Costs a little more per update, and `ALTER TABLE … DROP COLUMN` fails until
    /// ``SharedDatabase/narrowHistory(of:in:)``. For tables of up to 62 columns.
    case changedColumns
}
