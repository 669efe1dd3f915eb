import Foundation
import GRDB

/// A command that was set aside: it is kept in the database until somebody has it tried again, or drops it.
public struct DeadLetter: Sendable, Hashable, Identifiable {
    /// Why a command is set aside.
    public enum Reason: String, Sendable, Codable, CaseIterable {
        /// It was tried as often as ``OutboxHandlers/Retries/maximumAttempts`` says.
        case failed
        /// No handler of the owner knows the name and version. An owner that does applies it when it starts.
        case unknown
        /// The payload is not what the handler's type says.
        case undecodable
        /// The handler threw an ``OutboxRefusal``.
        case refused
    }

    public var id: UUID
    public var sender: String
    /// Of the command.
    public var name: String
    public var version: Int
    public var payload: Data
    public var submitted: Date
    public var setAside: Date
    public var reason: Reason
    /// Why it was set aside last, as text.
    public var error: String
    /// How often it was tried, before it was set aside last.
    public var attempts: Int
    /// Whether it is to be tried again, as soon as an owner runs.
    public var isToBeRetried: Bool

    /// How often it was tried since it was set aside last, and has failed.
    public var newAttempts = 0
    /// When it is tried again, if one of those has failed.
    public var nextTry: Date?
    /// Why the last of those has failed, as text.
    public var newError: String?
}

extension DeadLetter {
    init(
        _ command: CommandFile,
        at date: Date,
        reason: Reason,
        error: String,
        attempts: Int
    ) {
        self.init(
            id: command.id,
            sender: command.sender,
            name: command.kind.name,
            version: command.kind.version,
            payload: command.payload,
            submitted: command.date,
            setAside: date,
            reason: reason,
            error: error,
            attempts: attempts,
            isToBeRetried: false
        )
    }

    var command: CommandFile {
        CommandFile(
            id: id,
            kind: OutboxCommandKind(name: name, version: version),
            sender: sender,
            time: submitted.nanosecondsSince1970,
            payload: payload
        )
    }
}

extension DeadLetter: FetchableRecord {
    public init(row: Row) {
        id = row["id"]
        sender = row["sender"]
        name = row["name"]
        version = row["version"]
        payload = row["payload"]
        submitted = Date(timeIntervalSince1970: row["submitted"])
        setAside = Date(timeIntervalSince1970: row["set_aside"])
        reason = Reason(rawValue: row["reason"]) ?? .failed
        error = row["error"]
        attempts = row["attempts"]
        isToBeRetried = row["is_to_be_retried"]
        // Columns of some queries only. `row["x"] as Int?` would trap on a value of another type.
        func value<Value: DatabaseValueConvertible>(_ column: String) -> Value? {
            (row[column] as DatabaseValue?).flatMap(Value.fromDatabaseValue)
        }
        newAttempts = value("new_attempts") ?? 0
        nextTry = value("next").map(Date.init(timeIntervalSince1970:))
        newError = value("new_error")
    }
}
