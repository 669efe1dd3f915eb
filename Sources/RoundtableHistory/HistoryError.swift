import Foundation

/// An error of the history.
public enum HistoryError: Error, Equatable, Sendable {
    /// Changes are missing between what the reader knows and what is kept. The reader must rebuild whatever it derived from earlier
    /// changes, from the tables themselves, and continue from `token`.
    ///
    /// Read the tables *after* this error was thrown. Changes that were made between the token and that reading are then reported
    /// once more, so none is missed.
    case startOver(reason: StartOverReason, token: HistoryToken)

    /// The database has no history: it was never enabled for any table.
    case notEnabled(path: String)

    /// The history of this table is not recorded. Call ``DatabaseHistory/enable(for:recording:keeping:)`` first.
    case notTracked(path: String, table: String)

    /// The changes of this table cannot be recorded.
    case cannotTrack(path: String, table: String, reason: String)

    /// Consumers keep their position in the database, which a read-only process cannot write.
    case readOnly(path: String)

    /// The history was created by a newer version of Roundtable.
    case newerFormat(path: String, format: Int)

    /// Why a reader cannot continue from its position.
    public enum StartOverReason: Hashable, Sendable {
        /// The token belongs to another history: the database was deleted or erased, and created again.
        case otherHistory
        /// The token is ahead of the history: the database was replaced by an older copy, or a power cut has undone commits
        /// (``CommitDurability/process``).
        case wentBack
        /// Changes after the token are no longer kept: see ``DatabaseHistory/Settings``. They are kept for a named consumer.
        case pruned
        /// Changes of this table may not have been recorded: it was recreated without its triggers, its history was enabled or
        /// disabled after the token, or a unique index, or a trigger that ends statements, was added to it.
        case changesMissing(table: String)
        /// The consumer is not known, because it or the database is new: this is the normal first answer. Changes after the error's token
        /// are kept for it.
        case newConsumer
        /// The consumer was dropped. Either it was not seen since this date, for longer than ``DatabaseHistory/Settings/consumerTimeout``, or
        /// ``DatabaseHistory/dropConsumer(_:)`` was called.
        case consumerDropped(lastSeen: Date)
        /// The consumer asks for tables that it did not ask for before, or that another process which consumes by the same name did
        /// not ask for. Their changes were acknowledged without having been handed out. Give each program its own name.
        case tablesAdded
    }
}

extension HistoryError: CustomStringConvertible, LocalizedError {
    public var description: String {
        switch self {
        case .startOver(let reason, let token):
            """
            The history cannot be continued: \(reason). Rebuild what was derived from earlier changes, from the tables, and continue \
            from \(token).
            """
        case .notEnabled(let path):
            "\(path): the database has no history. Enable it for the tables that matter: db.history.enable(for:)."
        case .notTracked(let path, let table):
            "\(path): the history of the table '\(table)' is not recorded. Enable it: db.history.enable(for: \"\(table)\")."
        case .cannotTrack(let path, let table, let reason):
            "\(path): the history of '\(table)' cannot be recorded: \(reason)"
        case .readOnly(let path):
            """
            \(path): opened read-only, and a consumer stores its position in the database. Store a token yourself, and read with \
            db.history.changes(since:in:).
            """
        case .newerFormat(let path, let format):
            "\(path): the history has format \(format), made by a newer version of Roundtable. Update this program."
        }
    }

    public var errorDescription: String? {
        switch self {
        case .startOver: "Earlier changes are no longer known."
        case .newerFormat: "The database was changed by a newer version of this program."
        case .notEnabled, .notTracked, .cannotTrack, .readOnly: "Changes of the database are not recorded."
        }
    }

    public var recoverySuggestion: String? {
        switch self {
        case .startOver: "Everything has to be read again."
        case .newerFormat: "Update this program."
        default: nil
        }
    }
}

extension HistoryError.StartOverReason: CustomStringConvertible {
    public var description: String {
        switch self {
        case .otherHistory: "the token is of another history; the database was deleted and created again"
        case .wentBack: "the token is ahead of the history; the database was replaced by an older copy"
        case .pruned: "changes after the token are no longer kept"
        case .changesMissing(let table): "changes of the table '\(table)' may not have been recorded"
        case .newConsumer: "the consumer is new to this database"
        case .consumerDropped(let lastSeen):
            "the consumer was dropped; it was last seen \(lastSeen.formatted(.iso8601))"
        case .tablesAdded:
            "the consumer asks for tables whose changes were acknowledged by its name without being handed out"
        }
    }
}
