import Foundation
import GRDB
import RoundtableFiles

/// A command that was set aside. The database keeps it until a retry applies it, or until it is dropped.
public struct DeadLetter: Sendable, Hashable, Identifiable {
    package typealias Reason = OutboxOutcome.SetAsideReason

    public var id: UUID
    public var sender: String
    /// The name of the command.
    public var name: String
    public var version: Int
    public var payload: Data
    public var submitted: Date
    public var setAside: Date
    public var reason: OutboxOutcome.SetAsideReason
    /// Why the command was set aside last, as text.
    public var error: String
    /// The number of tries before the command was set aside last.
    public var attempts: Int
    /// Whether the command is to be retried as soon as an owner runs.
    public var isToBeRetried: Bool

    /// The number of failed tries since the command was set aside last.
    package var newAttempts = 0
    /// When the command is retried, if one of those tries has failed.
    public var nextTry: Date?
    /// The error of the last of those tries, as text.
    package var newError: String?
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
    /// - throws: `DatabaseError` when a program has written values of other types.
    public init(row: Row) throws {
        id = try row.outboxValue("id")
        sender = try row.outboxValue("sender")
        name = try row.outboxValue("name")
        version = try row.outboxValue("version")
        payload = try row.outboxValue("payload")
        submitted = Date(timeIntervalSince1970: try row.outboxValue("submitted"))
        setAside = Date(timeIntervalSince1970: try row.outboxValue("set_aside"))
        reason = Reason(rawValue: try row.outboxValue("reason")) ?? .failed
        error = try row.outboxValue("error")
        attempts = try row.outboxValue("attempts")
        isToBeRetried = try row.outboxValue("is_to_be_retried")
        // Only some queries have these columns. `row["x"] as Int?` would trap on a value of another type.
        func value<Value: DatabaseValueConvertible>(_ column: String) -> Value? {
            (row[column] as DatabaseValue?).flatMap(Value.fromDatabaseValue)
        }
        newAttempts = value("new_attempts") ?? 0
        nextTry = value("next").map(Date.init(timeIntervalSince1970:))
        newError = value("new_error")
    }
}
