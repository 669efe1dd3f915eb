import Foundation
import GRDB

/// One row that was inserted, updated or deleted, by any program.
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

    /// The number of the transaction: the same for all its changes, and different from that of all other transactions. nil when the
    /// program that wrote does not use Roundtable.
    public let transaction: Int64?

    /// The author of the change: the name that a ``SharedDatabase`` was opened as. nil when the program that wrote does not use
    /// Roundtable, such as the `sqlite3` shell, or only its loadable extension.
    public let author: String?

    /// When the row was written, by the clock of the machine. Dates are neither unique nor always rising.
    public let date: Date

    /// The present name of the table, even if the table has been renamed since.
    public let table: String

    public let operation: Operation

    /// The values of the row's primary key, in the order of ``keyColumns``.
    public let key: [DatabaseValue]

    /// The names of the primary key's columns.
    public let keyColumns: [String]

    /// The columns that an `update` changed. nil when that is not known: not recorded, or a column was added meanwhile. In that case
    /// any column may have changed.
    public let columns: Set<String>?

    /// The values that columns had before this change, by the present names of the columns: those that ``OldValuePolicy`` names. Each change
    /// has its own, also when several changes of one row are read together.
    ///
    /// A `delete` has those of the row that was deleted. An `update` has them if they are kept of updates. An `insert` has them if the row
    /// was put in the place of one with the same key (by REPLACE): that row is gone, and there is no `delete` for it.
    ///
    /// A column is missing if its values were not kept when the change was made, or if its value was too long.
    public let oldValues: [String: DatabaseValue]
}

extension HistoryChange {
    /// The value that a column had before this change: `.null` if it was NULL, nil if it is not known (see ``oldValues``).
    ///
    /// - parameter column: the present name of the column, in capital or small letters.
    public func oldValue(_ column: String) -> DatabaseValue? {
        if let value = oldValues[column] { return value }
        let name = column.lowercased()
        return oldValues.first { $0.key.lowercased() == name }?.value
    }

    /// The old values as a row, to decode from: `Tombstone(row: change.oldRow)`, or `change.oldRow["serverID"] as String?`.
    public var oldRow: Row { Row(oldValues.mapValues { $0 as (any DatabaseValueConvertible)? }) }

    /// The primary key, if it is a single integer; otherwise nil.
    public var id: Int64? { key.count == 1 ? Int64.fromDatabaseValue(key[0]) : nil }

    /// Counts the rows written to tracked tables since the history began. Rises with the order of commits, with gaps.
    package var sequence: Int64 { token.sequence }
}

/// Some changes, and the position after them.
public struct HistoryPage: Hashable, Sendable {
    /// The changes in the order of the commits. A page ends where a transaction ends, unless one transaction is longer than the
    /// limit.
    public let changes: [HistoryChange]
    /// The position after the page. Pass it to the next call.
    public let token: HistoryToken
    /// Whether there were more changes to read.
    public let hasMore: Bool
}

/// What the history of a table records of an update.
public enum HistoryRecording: String, Sendable, Codable, CaseIterable {
    /// Records that a row was updated.
    case rows
    /// Records also which columns an update changed. It costs a little more per update, and `ALTER TABLE … DROP COLUMN` fails until
    /// ``DatabaseHistory/narrow(for:in:)`` is called. For tables of up to 62 columns.
    case changedColumns
}
