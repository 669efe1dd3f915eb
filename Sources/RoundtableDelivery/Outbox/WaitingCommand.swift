import Foundation
import RoundtableCore
import RoundtableFiles
import RoundtableKernel

/// A command that waits to be applied, as read from its file.
public struct WaitingCommand: Sendable, Hashable, Identifiable {
    public var id: UUID
    public var sender: String
    public var name: String
    package var version: Int
    public var payload: Data
    public var submitted: Date
    package var path: String

    /// What the command waits for, as far as is known.
    public var waitsFor = Awaited.owner
    /// The number of failed tries; nil if the database was not asked, which alone knows it. ``DatabaseOutbox/contents()`` asks it.
    public var attempts: Int?
    /// When the command is retried; nil if that is not known, or if no try has failed.
    public var nextTry: Date?
    /// The error of the last failed try; nil if it is not known, or if no try has failed.
    public var lastError: String?

    /// What a command waits for.
    public enum Awaited: Sendable, Hashable {
        /// An owner: none runs, or none has reached the command yet.
        case owner
        /// The next try, after a failed one.
        case nextTry
        /// An earlier command of its sender, which has failed and is to be retried.
        case earlierCommand(UUID)
        /// An earlier file of its sender, which a newer version of Roundtable has written, or which cannot be read.
        case earlierFile(path: String)
        /// Nothing: the command is decided, and its file is about to be removed.
        case removal(OutboxOutcome)
    }
}

/// The contents of an outbox.
public struct OutboxContents: Sendable, Hashable {
    /// The waiting commands, by sender, in the order in which they are applied.
    public var waiting: [WaitingCommand] = []
    /// The files that are not whole commands, by path, with the reason. The owner has moved them away, or will.
    public var damaged: [String: String] = [:]
    /// The files that a newer version of Roundtable has written, or that this process may not read, by path, with the reason.
    public var unreadable: [String: String] = [:]

    package init() {}
}

extension CommandOutbox {
    /// Reads the contents of a database's outbox. This reads files only, and needs no database; ``DatabaseOutbox/contents()`` asks
    /// the database as well.
    ///
    /// - throws: ``OutboxError`` if the folder cannot be read; ``SharedDatabaseError``, as opening the database would.
    public static func contents(forDatabaseAt url: URL) throws -> OutboxContents {
        try contents(OutboxFolder(databasePath: try DatabaseFile(url).path))
    }

    /// Reads the contents of the outbox in a folder.
    ///
    /// - throws: ``OutboxError`` if the folder cannot be read.
    public static func contents(at url: URL) throws -> OutboxContents { try contents(OutboxFolder(at: url)) }

    static func contents(_ folder: OutboxFolder) throws -> OutboxContents { try OutboxContents(OutboxWalk(folder)) }
}

extension OutboxContents {
    init(_ walk: OutboxWalk) throws {
        try walk.run { find in
            switch find {
            case .waiting(let command): waiting.append(command)
            case .damaged(let path, let reason): damaged[path] = reason
            case .unreadable(let path, let reason): unreadable[path] = reason
            }
        }
    }
}

extension DatabaseOutbox {
    /// Reads the contents of this database's outbox, with what the database knows of the waiting commands: how often they were tried, and
    /// why they wait.
    ///
    /// - throws: ``OutboxError``; `DatabaseError`.
    @_disfavoredOverload
    public func contents() throws -> OutboxContents { try OutboxContents(OutboxWalk(folder, asking: database)) }

    /// Reads the contents like the synchronous `contents()`, without blocking the thread, with the same results and errors.
    public func contents() async throws -> OutboxContents {
        try await offThread { Result { try self.contents() } }.get()
    }
}

extension WaitingCommand {
    var fileName: String { (path as NSString).lastPathComponent }

    package init(_ command: CommandFile, path: String) {
        self.init(
            id: command.id,
            sender: command.sender,
            name: command.kind.name,
            version: command.kind.version,
            payload: command.payload,
            submitted: command.date,
            path: path
        )
    }
}
