import Foundation
import RoundtableCore
import RoundtableFiles

// These descriptions are for logs, and have one line each.

private func utc(_ date: Date) -> String { date.formatted(.iso8601) }

extension WaitingCommand: CustomStringConvertible {
    public var description: String {
        let command = OutboxCommandKind(name: name, version: version).label(from: sender, id)
        return switch waitsFor {
        case .owner: "\(command) waits for an owner"
        case .nextTry:
            "\(command) has failed \(attempts ?? 0) times, at last with: \(lastError ?? "?")"
                + (nextTry.map { "; tried again \(utc($0))" } ?? "")
        case .earlierCommand(let id): "\(command) waits for \(id), which has failed"
        case .earlierFile(let path): "\(command) waits for \(path), which cannot be read here"
        case .removal(let outcome): "\(command) is about to be removed: \(outcome)"
        }
    }
}

extension DeadLetter: CustomStringConvertible {
    /// The command, without errors.
    var label: String { OutboxCommandKind(name: name, version: version).label(from: sender, id) }

    public var description: String {
        let tries = attempts == 0 ? "" : " after \(attempts) \(attempts == 1 ? "try" : "tries")"
        return "\(label), \(reason)\(tries): \(error)"
            + retries
    }

    private var retries: String {
        guard newAttempts > 0 else { return isToBeRetried ? "; to be tried again" : "" }
        return "; has failed \(newAttempts) times more, at last with: \(newError ?? "?")"
            + (nextTry.map { "; tried again \(utc($0))" } ?? "")
    }
}

extension OutboxEvent: CustomStringConvertible {
    public var description: String {
        switch self {
        case .attemptFailed(let command, let error, let next):
            "try \(command.attempt) of \(command) has failed, and is made again \(utc(next)): \(error)"
        case .setAside(let letter): "set aside: \(letter)"
        case .damagedFile(let path, let reason): "not a whole command, and left to be inspected: \(path): \(reason)"
        case .waitsForNewerVersion(let path):
            "submitted by a newer version of Roundtable, and waits for an owner that knows it, as its sender's later ones do: \(path)"
        case .otherDatabase(let folder, let database, let owner):
            """
            a record in \(folder) says that its commands were applied to \(database), too, by '\(owner)', and they do not name their database. \
            Give each database an outbox folder of its own (Options.outboxFolder). 'roundtable doctor' says whose record it is
            """
        case .otherFolder(let database, let folder, let owner):
            """
            commands in \(folder) were applied to \(database), too, by '\(owner)', and this owner does not apply what waits there. All processes that \
            open the database must name the same folder (Options.outboxFolder); or, if no process submits there and nothing waits, remove \(folder)
            """
        case .failed(let error): "failed, and is retried: \(error)"
        }
    }
}

extension OutboxReport: CustomStringConvertible {
    public var description: String {
        let counts = [
            (applied, "applied"), (setAside, "set aside"), (failed, "failed"), (known, "known"), (damaged, "damaged"),
        ]
        let parts = counts.filter { $0.0 > 0 }.map { "\($0.0) \($0.1)" }
        let next = nextTry.map { ["next try \(utc($0))"] } ?? []
        return parts.isEmpty && next.isEmpty ? "nothing to do" : (parts + next).joined(separator: ", ")
    }
}

extension SharedDatabase.PerformResult: CustomStringConvertible {
    public var description: String {
        switch self {
        case .applied: "applied"
        case .submitted(let submission): "not now: \(submission)"
        }
    }
}
