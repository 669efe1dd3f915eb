import Foundation
import RoundtableCore
import RoundtableFiles

/// An event of the outbox of a database, at its owner.
public enum OutboxEvent: Sendable {
    /// A try of a command has failed with an error of its own. It is retried at `next`; until then, later commands of its sender wait.
    case attemptFailed(OutboxCommandInfo, error: any Error, next: Date)
    /// A command was set aside. It is not applied, and is kept as a dead letter.
    case setAside(DeadLetter)
    /// A file in the outbox is not a whole command. It was moved away if that was possible, and is now at `path`.
    case damagedFile(path: String, reason: String)
    /// A command was submitted by a newer version of Roundtable. It waits for an owner that knows it, and so do later commands of its
    /// sender.
    case waitsForNewerVersion(path: String)
    /// Commands in this folder were also applied to another database, which still exists. The commands do not say which database they
    /// are for, so each of the two gets those that its owner reaches first. This is reported when the drain begins, and is only a hint:
    /// a copy that no program opens any more does no harm.
    case otherDatabase(folder: String, database: String, owner: String)
    /// Commands of another folder, which still exists, were applied to this database. This owner does not apply what waits there. This
    /// is reported when the drain begins, and is only a hint: a folder that no program submits to any more does no harm.
    case otherFolder(database: String, folder: String, owner: String)
    /// The drain failed, as a whole or with one file. It tries again.
    case failed(any Error)
}

extension OutboxEvent: ReportedEvent {
    package var severity: SharedDatabase.Severity {
        switch self {
        case .attemptFailed, .waitsForNewerVersion, .otherDatabase, .otherFolder: .warning
        case .setAside, .damagedFile, .failed: .error
        }
    }

    package var text: String {
        switch self {
        case .attemptFailed(let command, let error, let next):
            """
            try \(command.attempt) of \(command) has failed, and is made again \(next.formatted(.iso8601)): \
            \(LoggedText.of(error))
            """
        case .setAside(let letter):
            // The error of a dead letter is the text of an error of the handler's.
            """
            set aside and not applied: \(letter.label), \(letter.reason). db.outbox.deadLetters() and 'roundtable outbox' show its error, and \
            retry or drop it
            """
        case .failed(let error): "applying commands has failed, and is retried: \(LoggedText.of(error))"
        case .damagedFile, .waitsForNewerVersion, .otherDatabase, .otherFolder: description
        }
    }
}

extension OutboxError: LoggedError {
    package var loggedText: String {
        guard case .decidedBefore(let path, let id, _) = self else { return description }
        return "\(path): the command \(id) is not applied, because it was decided before"
    }
}

extension SnapshotFileError: LoggedError {
    package var loggedText: String {
        guard case .encodingFailed(let path, _) = self else { return description }
        return "\(path): the value cannot be encoded. The file was left as it is"
    }
}
