import Foundation
import RoundtableKernel

/// A folder in which a process leaves commands for the owner of a database, without opening the database.
///
/// The folder lies beside the database (``init(forDatabaseAt:as:options:)``). Where senders may not inspect what is beside the database,
/// it can be any other folder that all of them know (``init(at:as:options:)``, `SharedDatabase.Options.outboxFolder`).
///
/// ```swift
/// let outbox = try CommandOutbox(forDatabaseAt: url, as: "widget")
/// let submission = try await outbox.submit(AddEntry(text: "…"))       // on the disk
/// switch try await submission.outcome(within: .seconds(2)) { … }
/// ```
///
/// The commands that one process submits under one name are applied in the order of their submission, each exactly once, by a process
/// that opens the database with `OutboxHandlers`. They are applied immediately if such a process runs, and otherwise when one starts. See
/// the guide *Outbox* of Roundtable.
///
/// An outbox is safe to use from any thread. It holds no file lock, so that the system may freeze or kill the process at any moment.
public final class CommandOutbox: Sendable {
    /// How commands are submitted.
    public struct Options: Sendable {
        /// The failures that a submitted command survives. The default is `machine`: each submission syncs twice. With `process`, a power
        /// cut may lose or damage what was submitted in the last seconds.
        public var durability = CommitDurability.machine

        /// The largest payload in bytes; at most 128 MiB.
        public var maximumCommandSize = 1 << 20

        /// The largest number of waiting commands, of all senders together.
        public var maximumCount = 10_000

        /// The largest size of the waiting commands of all senders together, in bytes.
        public var maximumBytes = 64 << 20

        #if canImport(Darwin)
            /// The protection class of this process's commands, on devices that lock. If nil, the default, they get the class that new
            /// files get in that folder. With `.complete`, the owner cannot apply them while the device is locked, and resumes when it is
            /// unlocked.
            public var fileProtection: FileProtectionType?
        #endif

        public init() {}
    }

    /// The path of the folder, with symbolic links resolved. It is created by the first submission, request for an outcome, or owner.
    package let path: String

    /// The name by which the owner and other processes know this sender.
    package let sender: String

    package let options: Options

    package let folder: OutboxFolder
    private let stream: OutboxStream

    /// Creates the outbox value for a database. This writes nothing yet.
    ///
    /// The database need not exist: commands can be submitted before the program that creates it has run for the first time. While it does
    /// not exist, the outcome of a command is ``OutboxOutcome/noDatabase(path:)``.
    ///
    /// - Parameters:
    ///   - url: the URL of the database, whose folder must exist. The outbox's folder, named like the database with `-outbox` appended,
    ///     must not be a symbolic link.
    ///   - sender: the name of the sender, such as `"widget"`. Commands of senders with different names are applied independently of each
    ///     other.
    ///   - options: durability and limits.
    /// - throws: ``OutboxError``, also if no database can be shared at that path: ``OutboxError/databaseNotUsable(path:reason:)``.
    public convenience init(forDatabaseAt url: URL, as sender: String, options: Options = Options()) throws {
        try self.init(OutboxFolder(forDatabaseAt: url), as: sender, options: options)
    }

    /// Creates the outbox value for a folder. Its owner opens the database with the same folder in `SharedDatabase.Options.outboxFolder`.
    /// This writes nothing yet.
    ///
    /// The permissions of the folder decide who may use the outbox. If other users are to submit commands, create the folder with the
    /// permissions that they need.
    ///
    /// - Parameters:
    ///   - url: the URL of the folder. It need not exist, but its parent must. This call resolves symbolic links in the path.
    ///   - sender: the name of the sender, such as `"widget"`. Commands of senders with different names are applied independently of each
    ///     other.
    ///   - options: durability and limits.
    /// - throws: ``OutboxError``.
    public convenience init(at url: URL, as sender: String, options: Options = Options()) throws {
        try self.init(OutboxFolder(at: url), as: sender, options: options)
    }

    package init(_ folder: OutboxFolder, as sender: String, options: Options = Options()) throws {
        guard CommandFileName.encoded(sender) != nil else { throw Self.notUsable(sender) }
        self.folder = folder
        path = folder.path
        self.sender = sender
        self.options = options
        stream = OutboxStream.of(sender, in: folder)
    }

    private static func notUsable(_ sender: String) -> OutboxError {
        let reason =
            sender.isEmpty
            ? "it is empty"
            : """
            it takes more than \(CommandFileName.maximumSenderLength) bytes in a file name, where all but letters, digits, '-' and '_' take \
            three bytes for each byte
            """
        return .senderNameNotUsable(sender, reason: reason)
    }

    /// Submits a command. When this returns, the command is stored, and is applied whatever happens to this process.
    ///
    /// - Parameters:
    ///   - command: what to do.
    ///   - id: the id under which the command is applied once. Give an id that you can reproduce if you may have to submit again without
    ///     knowing whether the first submission succeeded, for example after a crash. The id is remembered for 30 days after the command
    ///     was applied.
    /// - throws: ``OutboxError`` if nothing was submitted, except with ``OutboxError/perhapsSubmitted(id:path:reason:)``; any error of
    ///   encoding.
    @_disfavoredOverload
    @discardableResult
    public func submit<Command: OutboxCommand>(_ command: Command, id: UUID = UUID()) throws -> OutboxSubmission {
        try submit(try file(of: command, id: id))
    }

    /// Submits a command like the synchronous `submit(_:id:)`, without blocking the thread, with the same results and errors.
    @discardableResult
    public func submit<Command: OutboxCommand>(_ command: Command, id: UUID = UUID()) async throws -> OutboxSubmission {
        try await offThread { Result { try self.submit(command, id: id) } }.get()
    }

    /// - throws: ``OutboxError`` if the command is not usable, or too large; any error of encoding.
    package func file<Command: OutboxCommand>(of command: Command, id: UUID) throws -> CommandFile {
        let kind = OutboxCommandKind(name: Command.name, version: Command.version)
        guard (1...255).contains(kind.name.utf8.count) else {
            throw OutboxError.commandNotUsable(name: kind.name, reason: "a command's name has 1 to 255 bytes.")
        }
        guard kind.version >= 0 else {
            throw OutboxError.commandNotUsable(name: kind.name, reason: "its version, \(kind.version), is below 0.")
        }
        let payload = try command.encoded()
        let limit = min(options.maximumCommandSize, CommandFile.maximumSize / 2)
        guard payload.count <= limit else {
            throw OutboxError.commandTooLarge(path: folder.path, name: kind.name, size: payload.count, limit: limit)
        }
        return CommandFile(id: id, kind: kind, sender: sender, time: Date().nanosecondsSince1970, payload: payload)
    }

    package func submit(_ command: CommandFile) throws -> OutboxSubmission {
        try folder.translating { try stream.submit(command, options) }
        return OutboxSubmission(id: command.id, folder: folder)
    }

    /// Waits until the owner reports the outcome of a command of any sender.
    ///
    /// - Parameters:
    ///   - id: the id that the command was submitted with.
    ///   - time: the longest time to wait for the owner. After it, the result is ``OutboxOutcome/waiting``, or
    ///     ``OutboxOutcome/noDatabase(path:)``.
    /// - throws: ``OutboxError``; `CancellationError`.
    public func outcome(of id: UUID, within time: Duration) async throws -> OutboxOutcome {
        try await OutboxQuestion(id: id, folder: folder).answer(within: time)
    }

    /// Waits like the asynchronous `outcome(of:within:)`, but blocks the calling thread.
    ///
    /// - throws: ``OutboxError``.
    @_disfavoredOverload
    public func outcome(of id: UUID, within time: Duration) throws -> OutboxOutcome {
        try OutboxQuestion(id: id, folder: folder).answer(until: MonotonicClock.now.addingSaturating(time.nanoseconds))
    }
}

/// A command that was submitted.
public struct OutboxSubmission: Sendable {
    public let id: UUID
    package let folder: OutboxFolder

    /// Waits until the owner reports the outcome of the command.
    ///
    /// - parameter time: the longest time to wait. After it, the result is ``OutboxOutcome/waiting``, or
    ///   ``OutboxOutcome/noDatabase(path:)``.
    /// - throws: ``OutboxError``; `CancellationError`.
    public func outcome(within time: Duration) async throws -> OutboxOutcome {
        try await OutboxQuestion(id: id, folder: folder).answer(within: time)
    }

    /// Waits like the asynchronous `outcome(within:)`, but blocks the calling thread.
    ///
    /// - throws: ``OutboxError``.
    @_disfavoredOverload
    public func outcome(within time: Duration) throws -> OutboxOutcome {
        try OutboxQuestion(id: id, folder: folder).answer(until: MonotonicClock.now.addingSaturating(time.nanoseconds))
    }
}

extension OutboxSubmission: CustomStringConvertible {
    public var description: String { "\(id), submitted to \(folder.path)" }
}
