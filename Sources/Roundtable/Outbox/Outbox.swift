import Foundation
import RoundtableKernel

/// Where a process leaves commands for the owner of a database, without opening the database.
///
/// It is a folder: beside the database (``init(forDatabaseAt:as:options:)``), or, where senders may not look at what is beside the database, any
/// other that all of them know (``init(at:as:options:)``, ``SharedDatabase/Options/outboxFolder``).
///
/// ```swift
/// let outbox = try Outbox(forDatabaseAt: url, as: "widget")
/// let submission = try await outbox.submit(AddEntry(text: "…"))       // on the disk
/// switch try await submission.outcome(within: .seconds(2)) { … }
/// ```
///
/// The commands of one name and process are applied in the order in which they were submitted, each exactly once, by a process that opens
/// the database with ``OutboxHandlers``: at once if one runs, else when one starts. See <doc:Outbox>.
///
/// Safe to use from any thread. It holds no lock on any file, so that the system may freeze or kill the process at any moment.
public final class Outbox: Sendable {
    /// How commands are left.
    public struct Options: Sendable {
        /// What a submitted command survives.
        public var durability: Durability = .machine

        /// The largest payload in bytes; at most 128 MiB.
        public var maximumCommandSize = 1 << 20

        /// How many commands may wait, of all senders.
        public var maximumCount = 10_000

        /// How many bytes the waiting commands of all senders may have.
        public var maximumBytes = 64 << 20

        #if canImport(Darwin)
            /// When the commands of this process can be read, on devices that lock. nil, the default: whatever new files have in that
            /// place. With `.complete`, the owner cannot apply them while the device is locked; it goes on when it is unlocked.
            public var fileProtection: FileProtectionType?
        #endif

        public init() {}
    }

    /// What a submitted command survives.
    public enum Durability: String, Sendable, CaseIterable, Codable {
        /// The death of any process, and that of the machine. Costs two syncs.
        case machine
        /// The death of any process. A power cut may lose, or damage, what was submitted in the last seconds.
        case process
    }

    /// The path of the folder, with symbolic links resolved. It is made by the first submission.
    public let path: String

    /// The name that the owner and other processes know this sender by.
    public let sender: String

    public let options: Options

    let folder: OutboxFolder
    private let stream: OutboxStream

    /// The outbox beside a database. Writes nothing yet.
    ///
    /// The database need not exist: commands can be submitted before the program that makes it has run for the first time. As long as it does not
    /// exist, the answer to who asks for an outcome is ``OutboxOutcome/noDatabase(path:)``.
    ///
    /// - Parameters:
    ///   - url: the database, whose folder must exist. What is beside it under the outbox's name, the database's with `-outbox`, must be no symbolic
    ///     link.
    ///   - sender: such as `"widget"`. Commands of senders with different names are applied independently of each other.
    ///   - options: durability and limits.
    /// - throws: ``OutboxError``; ``SharedDatabaseError``, as opening the database would.
    public convenience init(forDatabaseAt url: URL, as sender: String, options: Options = Options()) throws {
        let file = try DatabaseFile(url)
        guard file.hasFolder else { throw OutboxError.folderMissing(path: file.folder) }
        try self.init(OutboxFolder(databasePath: file.path), as: sender, options: options)
    }

    /// The outbox in a folder, whose owner opens the database with the same folder in ``SharedDatabase/Options/outboxFolder``. Writes nothing yet.
    ///
    /// Who may use it is up to the folder's permissions. Where other users than yours are to submit, create it with the permissions that they need.
    ///
    /// - Parameters:
    ///   - url: the folder. It need not exist; the one that it is in must. Symbolic links in the path are resolved, here and now.
    ///   - sender: such as `"widget"`. Commands of senders with different names are applied independently of each other.
    ///   - options: durability and limits.
    /// - throws: ``OutboxError``.
    public convenience init(at url: URL, as sender: String, options: Options = Options()) throws {
        try self.init(OutboxFolder(at: url), as: sender, options: options)
    }

    init(_ folder: OutboxFolder, as sender: String, options: Options = Options()) throws {
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
            it takes up more than \(CommandFileName.maximumSenderLength) bytes in a file name, where all but letters, digits, '-' and '_' take \
            up three a byte
            """
        return .senderNameNotUsable(sender, reason: reason)
    }

    /// Submits a command: when this returns, it is on the disk, and is applied whatever becomes of this process.
    ///
    /// - Parameters:
    ///   - command: what to do.
    ///   - id: a command is applied once under one id. Give one that you can tell again, when you may have to submit again without knowing
    ///     whether you have: after a crash, say. It is remembered for 30 days after the command was applied.
    /// - throws: ``OutboxError``, when nothing was submitted, with the exception of ``OutboxError/perhapsSubmitted(id:path:reason:)``; what
    ///   encoding throws.
    @_disfavoredOverload
    @discardableResult
    public func submit<Command: OutboxCommand>(_ command: Command, id: UUID = UUID()) throws -> OutboxSubmission {
        try submit(try file(of: command, id: id))
    }

    /// The same, without blocking the thread.
    @discardableResult
    public func submit<Command: OutboxCommand>(_ command: Command, id: UUID = UUID()) async throws -> OutboxSubmission {
        try await offThread { Result { try self.submit(command, id: id) } }.get()
    }

    /// - throws: ``OutboxError`` when the command is not usable, or too large; what encoding throws.
    func file<Command: OutboxCommand>(of command: Command, id: UUID) throws -> CommandFile {
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

    func submit(_ command: CommandFile) throws -> OutboxSubmission {
        do {
            try stream.submit(command, options)
        } catch let error as SystemError {
            throw OutboxError(error, folder: folder.path)
        }
        return OutboxSubmission(id: command.id, folder: folder)
    }

    /// What has become of a command of any sender.
    ///
    /// - Parameters:
    ///   - id: that it was submitted with.
    ///   - time: how long to wait for an owner to say. When it passes, the answer is ``OutboxOutcome/waiting``, or
    ///     ``OutboxOutcome/noDatabase(path:)``.
    /// - throws: ``OutboxError``; `CancellationError`.
    public func outcome(of id: UUID, within time: Duration) async throws -> OutboxOutcome {
        try await OutboxQuestion(id: id, folder: folder).answer(within: time)
    }

    /// The same, blocking the calling thread.
    @_disfavoredOverload
    public func outcome(of id: UUID, within time: Duration) throws -> OutboxOutcome {
        try OutboxQuestion(id: id, folder: folder).answer(until: MonotonicClock.now.addingSaturating(time.nanoseconds))
    }
}

/// A command that was submitted.
public struct OutboxSubmission: Sendable {
    public let id: UUID
    let folder: OutboxFolder

    /// Waits until the owner has said what has become of the command.
    ///
    /// - parameter time: how long to wait. When it passes, the answer is ``OutboxOutcome/waiting``, or ``OutboxOutcome/noDatabase(path:)``.
    /// - throws: ``OutboxError``; `CancellationError`.
    public func outcome(within time: Duration) async throws -> OutboxOutcome {
        try await OutboxQuestion(id: id, folder: folder).answer(within: time)
    }

    /// The same, blocking the calling thread.
    @_disfavoredOverload
    public func outcome(within time: Duration) throws -> OutboxOutcome {
        try OutboxQuestion(id: id, folder: folder).answer(until: MonotonicClock.now.addingSaturating(time.nanoseconds))
    }
}
