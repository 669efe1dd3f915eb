import Foundation

/// A command that waits to be applied, as its file says.
public struct WaitingCommand: Sendable, Hashable, Identifiable {
    public var id: UUID
    public var sender: String
    public var name: String
    public var version: Int
    public var payload: Data
    public var submitted: Date
    /// The file.
    public var path: String

    /// What it waits for, as far as is known.
    public var waitsFor = Awaited.owner
    /// How often it was tried, and has failed. nil where only the database knows, and it was not asked: ``SharedDatabase/outboxContents()`` asks.
    public var attempts: Int?
    /// When it is tried again. nil: not known, or it has not failed.
    public var nextTry: Date?
    /// Why it has failed last. nil: not known, or it has not.
    public var lastError: String?

    /// What a command waits for.
    public enum Awaited: Sendable, Hashable {
        /// An owner: none runs, or it has not come to it yet.
        case owner
        /// The next try, after one that has failed.
        case nextTry
        /// An earlier command of its sender, which has failed and is to be tried again.
        case earlierCommand(UUID)
        /// An earlier file of its sender, which a newer version of Roundtable has written, or which cannot be read.
        case earlierFile(path: String)
        /// Nothing: it is decided, and its file is about to be removed.
        case removal(OutboxOutcome)
    }
}

/// What an outbox holds.
public struct OutboxContents: Sendable, Hashable {
    /// What waits, by sender, in the order in which it is applied.
    public var waiting: [WaitingCommand] = []
    /// Files that are no whole commands, those that the owner has moved away and those that it will; with the reason.
    public var damaged: [String: String] = [:]
    /// Files that a newer version of Roundtable has written, or that this process may not read; with the reason.
    public var unreadable: [String: String] = [:]

    public init() {}
}

extension Outbox {
    /// What the outbox of a database holds. Reads files only, and needs no database, which ``SharedDatabase/outboxContents()`` asks as well.
    ///
    /// - throws: ``OutboxError`` when its folder cannot be read; ``SharedDatabaseError``, as opening the database would.
    public static func contents(forDatabaseAt url: URL) throws -> OutboxContents {
        try contents(OutboxFolder(databasePath: try DatabaseFile(url).path))
    }

    /// The same, of the outbox in a folder.
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

extension SharedDatabase {
    /// What the outbox of this database holds, and what the database knows of it: how often what waits was tried, and why it waits.
    ///
    /// - throws: ``OutboxError``; `DatabaseError`.
    @_disfavoredOverload
    public func outboxContents() throws -> OutboxContents { try OutboxContents(OutboxWalk(outboxFolder, asking: self)) }

    /// The same, without blocking the thread.
    public func outboxContents() async throws -> OutboxContents {
        try await offThread { Result { try self.outboxContents() } }.get()
    }
}

extension WaitingCommand {
    /// Of its file, among the commands.
    var fileName: String { (path as NSString).lastPathComponent }

    init(_ command: CommandFile, path: String) {
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
