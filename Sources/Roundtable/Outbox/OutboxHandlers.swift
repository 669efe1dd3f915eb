import Foundation
import GRDB
import RoundtableKernel

/// What the owner of a database does for each kind of command.
///
/// ```swift
/// var handlers = OutboxHandlers()
/// handlers.handle(AddEntry.self) { db, command in try Entry(text: command.text).insert(db) }
/// options.outbox = handlers
/// ```
///
/// A handler runs in the write transaction that also records that the command is applied: all that it does to the database happens
/// exactly once. What else it does, it may do again. Others wait for the turn meanwhile, so it should be short.
///
/// A handler that throws is tried again after a while (``retries``); later commands of the same sender wait for that, those of others do not. After
/// the last try the command is set aside as a ``DeadLetter``, and at once when the handler throws an ``OutboxRefusal``. Errors that are the database's and not the command's (`SQLITE_BUSY`, `SQLITE_FULL`,
/// `SQLITE_IOERR` and the like) count as no try.
public struct OutboxHandlers: Sendable {
    /// How often a command that fails is tried again, and when.
    public struct Retries: Sendable, Hashable {
        /// Then it is set aside. At least 1: it is never tried again.
        public var maximumAttempts = 8
        /// After the first failure; twice as long after each further one.
        public var firstDelay: Duration = .milliseconds(100)
        public var maximumDelay: Duration = .seconds(60)

        public init() {}
    }

    /// What the drain has to tell.
    public enum Event: Sendable {
        /// A try of a command has failed with an error of its own. It is tried again at `next`; until then, later ones of its sender wait.
        case attemptFailed(OutboxCommandInfo, error: any Error, next: Date)
        /// A command is not applied, and kept for somebody to look at.
        case setAside(DeadLetter)
        /// A file in the outbox was no whole command, and was moved to where it is now.
        case damagedFile(path: String, reason: String)
        /// A command was submitted by a newer version of Roundtable. It waits for an owner that knows it, and so do later ones of its sender.
        case waitsForNewerVersion(path: String)
        /// Commands in this folder were applied to another database, too, which is still there: they do not say which one they are for, so that
        /// each of the two gets what its owner comes to first. Told when the drain begins, and no more than a hint: a copy that nobody opens any more
        /// does no harm.
        case otherDatabase(folder: String, database: String, owner: String)
        /// Commands of another folder, which is still there, were applied to this database: what waits there is none of this owner's business.
        /// Told when the drain begins, and no more than a hint: a folder that nobody submits to any more does no harm.
        case otherFolder(database: String, folder: String, owner: String)
        /// The drain could not go on, or not with one file. It tries again.
        case failed(any Error)
    }

    public var retries = Retries()

    /// How long a command of an unknown name or version waits for another owner that knows it, as while a program is being updated, before it is
    /// set aside. Later commands of its sender wait, too.
    public var gracePeriod: Duration = .seconds(10)

    /// Called after the round that it tells of, on the thread that drains, without the turn.
    public var onEvent: (@Sendable (Event) -> Void)?

    typealias Handler = @Sendable (Database, CommandFile, OutboxCommandInfo) throws -> Void

    private var handlers: [OutboxCommandKind: Handler] = [:]

    /// What tests play.
    package var environment = Environment()

    package struct Environment: Sendable {
        package var now: @Sendable () -> Date = { Date() }
        /// Lists the commands in place of the system.
        package var names: (@Sendable (_ folder: String) throws -> [String]?)?
    }

    public init() {}

    /// Applies commands of this type, in place of what was said before for its name and version.
    public mutating func handle<Command: OutboxCommand>(
        _ type: Command.Type,
        _ apply: @escaping @Sendable (Database, Command) throws -> Void
    ) {
        handle(type) { db, command, _ in try apply(db, command) }
    }

    /// The same, with what else is known of the command.
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
}

/// The payload is not of the type that its name and version say. Trying again would not help.
struct UndecodablePayload: Error, CustomStringConvertible {
    let kind: OutboxCommandKind
    let reason: String

    var description: String { "the payload is not that of \(kind): \(reason)" }
}

extension OutboxHandlers.Retries {
    /// After this many attempts.
    func delay(after attempts: Int) -> TimeInterval {
        let doubled = firstDelay.seconds * pow(2, Double(min(attempts, 60) - 1))
        return min(doubled, maximumDelay.seconds)
    }
}

extension Duration {
    var seconds: Double { Double(components.seconds) + Double(components.attoseconds) / 1e18 }
}
