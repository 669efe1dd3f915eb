import Foundation
import RoundtableKernel

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// An error of an outbox.
public enum OutboxError: Error, Equatable, Sendable {
    /// The name cannot be that of a sender.
    case senderNameNotUsable(String, reason: String)

    /// The name or the version of the command cannot be stored.
    case commandNotUsable(name: String, reason: String)

    /// The payload is larger than ``CommandOutbox/Options/maximumCommandSize``. Nothing was submitted.
    case commandTooLarge(path: String, name: String, size: Int, limit: Int)

    /// The waiting commands leave no room: this command would exceed ``CommandOutbox/Options/maximumCount`` or
    /// ``CommandOutbox/Options/maximumBytes``. Nothing was submitted. Either no owner runs, or it uses another folder, or a command at the
    /// head of the queue fails again and again.
    case full(path: String, count: Int, bytes: Int, limit: Limit)

    /// A file of the outbox, or a folder, has a problem that any file can have. Nothing was submitted; the commands submitted before are
    /// kept. With ``FileProblem/folderMissing``, the path is that of the folder.
    case file(path: String, FileProblem)

    /// The path cannot be that of an outbox.
    case folderNotUsable(path: String, reason: String)

    /// No database can be shared at this path, so no process would apply what is submitted beside it.
    case databaseNotUsable(path: String, reason: String)

    /// This process applies the commands in this folder to another database.
    case folderInUse(path: String, database: String)

    /// The command was stored, but the system failed to make that durable. An owner may have applied the command, and a power failure may
    /// lose it. Submit it again with this id: it is applied once.
    case perhapsSubmitted(id: UUID, path: String, reason: String)

    /// A read-only participant can neither apply commands nor change their outcomes.
    case readOnly(path: String)

    /// A newer version of Roundtable made the outbox's tables.
    case newerFormat(path: String, format: Int)

    /// There is no dead letter with this id.
    case noSuchDeadLetter(path: String, id: UUID)

    /// A command with this id was set aside or dropped before, and is not applied again.
    case decidedBefore(path: String, id: UUID, outcome: OutboxOutcome)

    /// A limit on the waiting commands.
    public enum Limit: Hashable, Sendable {
        case count(Int)
        case bytes(Int)
    }
}

extension OutboxError: CustomStringConvertible, LocalizedError {
    public var description: String {
        switch self {
        case .senderNameNotUsable(let name, let reason):
            "'\(name)' cannot be the name of a sender: \(reason). Take a short one, such as \"widget\"."
        case .commandNotUsable(let name, let reason):
            "'\(name)' cannot be submitted: \(reason)"
        case .commandTooLarge(let path, let name, let size, let limit):
            """
            \(path): the command '\(name)' has a payload of \(size) bytes, and \(limit) is the limit. Nothing was submitted. Keep large data \
            in a file of its own and submit its name, or raise maximumCommandSize.
            """
        case .full(let path, let count, let bytes, let limit):
            """
            \(path): \(count) commands with \(bytes) bytes wait to be applied, and \(limit) is the limit. Nothing was submitted. They wait for a \
            process that opens the database with handlers (Options.outbox): check that it runs. 'roundtable outbox' shows what waits.
            """
        case .file(let path, let problem):
            "\(path): \(problem.description(consequence: Self.consequence(problem)))"
        case .folderNotUsable(let path, let reason):
            """
            \(path): no outbox can be there: \(reason). Name a folder on this machine, which need not exist, in one that does \
            (Options.outboxFolder, CommandOutbox(at:as:)); and have no symbolic links in it.
            """
        case .databaseNotUsable(let path, let reason):
            "\(path): \(reason). No process can share a database there, and apply what is submitted beside it. Nothing was submitted."
        case .folderInUse(let path, let database):
            """
            \(path): the commands in this folder are applied to \(database), which this process has open, too. They do not name their database: \
            give each a folder of its own (Options.outboxFolder).
            """
        case .perhapsSubmitted(let id, let path, let reason):
            """
            \(path): \(reason), after the command was stored. It may be applied already, or be lost in a power failure: submit it \
            again with the same id, \(id), under which it is applied once.
            """
        case .readOnly(let path):
            """
            \(path): opened read-only. Commands are applied, and dead letters changed, by a process that may write: open the database for \
            writing, or use 'roundtable outbox'.
            """
        case .newerFormat(let path, let format):
            "\(path): the outbox's tables have format \(format), made by a newer version of Roundtable. Update this program."
        case .noSuchDeadLetter(let path, let id):
            "\(path): there is no dead letter \(id). deadLetters() and 'roundtable outbox' list those that exist."
        case .decidedBefore(let path, let id, let outcome):
            "\(path): the command \(id) is not applied: \(outcome). \(Self.advice(outcome))"
        }
    }

    private static func consequence(_ problem: FileProblem) -> String {
        let kept = "If this was a submission, the command is not stored. Commands that were submitted before are kept."
        return switch problem {
        case .diskFull, .protected, .system: kept
        case .readOnlyFileSystem:
            "Nothing can be submitted, applied or asked there. Options.outboxFolder puts the outbox elsewhere."
        case .noPermission:
            """
            \(kept) Beside a database, an outbox has the permissions of the database file; elsewhere, those of its folder. Change them there, and \
            in what is in the outbox already.
            """
        case .folderMissing: "The outbox is to lie in it."
        }
    }

    private static func advice(_ outcome: OutboxOutcome) -> String {
        if case .setAside = outcome {
            return "Retry it with db.outbox.retry(_:), or perform it under another id."
        }
        return "Perform it under another id."
    }

    public var errorDescription: String? {
        switch self {
        case .commandTooLarge: "The change is too large to be stored."
        case .full: "Too many changes are waiting to be applied."
        case .file: "The change cannot be stored."
        case .perhapsSubmitted: "The change may be stored, or may be lost."
        case .decidedBefore: "This change was decided before."
        case .newerFormat: "The database was changed by a newer version of this program."
        case .senderNameNotUsable, .commandNotUsable, .folderNotUsable, .databaseNotUsable, .folderInUse, .readOnly,
            .noSuchDeadLetter:
            "The change cannot be applied."
        }
    }

    public var failureReason: String? {
        guard case .file(_, let problem) = self else { return nil }
        return problem.reasonForPeople
    }

    public var recoverySuggestion: String? {
        switch self {
        case .full: "Open the app, which applies them."
        case .file(_, let problem): problem.suggestionForPeople
        case .perhapsSubmitted: "Try again."
        case .newerFormat: "Update this program."
        default: nil
        }
    }
}

extension OutboxError.Limit: CustomStringConvertible {
    public var description: String {
        switch self {
        case .count(let count): "\(count) commands"
        case .bytes(let bytes): "\(bytes) bytes"
        }
    }
}

extension OutboxError {
    /// Translates the error of a system call for an outbox.
    ///
    /// - parameter hasProtection: whether the system has protection classes: see ``FileProblem``.
    package init(_ error: SystemError, folder: String, hasProtection: Bool = FileProblem.systemHasProtection) {
        let path = error.path ?? folder
        switch error.errno {
        case ENOTDIR: self = .folderNotUsable(path: path, reason: "a part of its path is not a folder")
        case ELOOP: self = .folderNotUsable(path: path, reason: "it is a symbolic link, which is not followed")
        default:
            let problem = FileProblem(error, hasProtection: hasProtection)
            // Either the name itself or a folder above it may be missing.
            let isInMissingFolder = problem == .folderMissing && path != folder
            self = .file(path: isInMissingFolder ? (path as NSString).deletingLastPathComponent : path, problem)
        }
    }
}
