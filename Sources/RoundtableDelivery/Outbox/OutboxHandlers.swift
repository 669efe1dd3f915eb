import Foundation
import GRDB
import RoundtableFiles

/// The functions with which the owner of a database applies each kind of command.
///
/// ```swift
/// var handlers = OutboxHandlers()
/// handlers.handle(AddEntry.self) { db, command in try Entry(text: command.text).insert(db) }
/// options.outbox = handlers
/// ```
///
/// A handler runs in the write transaction that also records that the command is applied, so its changes of the database happen exactly
/// once. Its other effects may happen more than once. Other writers wait for the turn meanwhile, so a handler should be short.
///
/// If a handler throws, the command is retried after a pause (``retries``). Later commands of the same sender wait for that; those of other
/// senders do not. After the last try, the command is set aside as a ``DeadLetter``; this happens immediately if the handler throws an
/// ``OutboxRefusal``. Errors that may be the database's and not the command's (`SQLITE_BUSY`, `SQLITE_FULL`, `SQLITE_IOERR` and the like)
/// count as tries only if other commands have succeeded since the command's last such error, or from the eighth such error on. An
/// interruption by a suspension never counts.
public struct OutboxHandlers: Sendable {
    /// How often a command that fails is retried, and when.
    public struct Retries: Sendable, Hashable {
        /// The number of tries after which the command is set aside, at least 1. With 1, it is never retried.
        public var maximumAttempts = 8
        /// The pause after the first failure. It doubles with each further failure.
        public var firstDelay: Duration = .milliseconds(100)
        public var maximumDelay: Duration = .seconds(60)

        public init() {}
    }

    public var retries = Retries()

    /// How long a command of an unknown name or version waits before it is set aside. Another owner that knows it may apply it in that
    /// time, for example while a program is being updated. Later commands of its sender wait, too.
    public var gracePeriod: Duration = .seconds(10)

    typealias Handler = @Sendable (Database, CommandFile, OutboxCommandInfo) throws -> Void

    private var handlers: [OutboxCommandKind: Handler] = [:]

    /// What tests replace.
    package var environment = Environment()

    package struct Environment: Sendable {
        package var now: @Sendable () -> Date = { Date() }
        /// A function that lists the commands in place of the system.
        package var names: (@Sendable (_ folder: String) throws -> [String]?)?
        /// Called with each event that a drain with these handlers reports, on the thread that drains.
        package var note: (@Sendable (OutboxEvent) -> Void)?
    }

    public init() {}

    /// Sets the handler of commands of this type. It replaces an earlier handler of the same name and version.
    public mutating func handle<Command: OutboxCommand>(
        _ type: Command.Type,
        _ apply: @escaping @Sendable (Database, Command) throws -> Void
    ) {
        handle(type) { db, command, _ in try apply(db, command) }
    }

    /// Sets the handler of commands of this type, which also gets the information on each command. It replaces an earlier handler of the
    /// same name and version.
    public mutating func handle<Command: OutboxCommand>(
        _ type: Command.Type,
        _ apply: @escaping @Sendable (Database, Command, OutboxCommandInfo) throws -> Void
    ) {
        handlers[OutboxCommandKind(name: Command.name, version: Command.version)] = { db, file, info in
            let command: Command
            do {
                command = try Command.decoded(from: file.payload)
            } catch {
                throw UndecodablePayload(kind: file.kind, reason: "\(error)")
            }
            try apply(db, command, info)
        }
    }

    func handler(of kind: OutboxCommandKind) -> Handler? { handlers[kind] }

    var kinds: Set<OutboxCommandKind> { Set(handlers.keys) }

    var retryPolicy: OutboxRetryPolicy { OutboxRetryPolicy(retries: retries, gracePeriod: gracePeriod) }
}

/// The payload is not of the type that its name and version say. A retry would not help.
struct UndecodablePayload: Error, CustomStringConvertible {
    let kind: OutboxCommandKind
    let reason: String

    var description: String { "the payload is not that of \(kind): \(reason)" }
}
