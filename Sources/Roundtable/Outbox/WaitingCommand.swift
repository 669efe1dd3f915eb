import Foundation
import GRDB
import RoundtableKernel

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

    static func contents(_ folder: OutboxFolder) throws -> OutboxContents {
        do {
            return try OutboxContents(folder)
        } catch let error as SystemError {
            throw OutboxError(error, folder: folder.path)
        }
    }
}

extension OutboxContents {
    init(_ folder: OutboxFolder) throws {
        let names = (try System.names(inFolder: folder.commands) ?? []).compactMap(CommandFileName.init).sorted()
        // By sender, as names have it.
        var obstacles: [String: String] = [:]
        for name in names {
            let path = folder.command(name)
            let obstacle = obstacles[name.encodedSender]
            do {
                switch try CommandFile.read(name, in: folder) {
                case nil: break
                case .command(let command):
                    var waits = WaitingCommand(command, path: path)
                    if let obstacle { waits.waitsFor = .earlierFile(path: obstacle) }
                    waiting.append(waits)
                case .damaged(let reason, _): damaged[path] = reason
                case .newer(let format):
                    unreadable[path] = "format \(format), of a newer version of Roundtable"
                }
            } catch {
                unreadable[path] = "\(error)"
            }
            if unreadable[path] != nil, obstacle == nil { obstacles[name.encodedSender] = path }
        }
        for text in try System.names(inFolder: folder.damaged) ?? [] {
            let path = "\(folder.damaged)/\(text)"
            damaged[path] =
                switch try? CommandFile.read(path, in: folder) {
                case nil: "it cannot be read"
                case .damaged(let reason, _): reason
                case .command(let command) where command.sender != CommandFileName(text)?.sender:
                    "submitted by '\(command.sender)', and named as if by another"
                case .command, .newer: "whole by now: it is applied when it is moved back into \(folder.commands)"
                }
        }
    }
}

extension SharedDatabase {
    /// What the outbox of this database holds, and what the database knows of it: how often what waits was tried, and why it waits.
    ///
    /// - throws: ``OutboxError``; `DatabaseError`.
    @_disfavoredOverload
    public func outboxContents() throws -> OutboxContents {
        // The files first: what is applied meanwhile is known then.
        var contents = try Outbox.contents(outboxFolder)
        try read { try contents.add(from: $0) }
        return contents
    }

    /// The same, without blocking the thread.
    public func outboxContents() async throws -> OutboxContents {
        try await offThread { Result { try self.outboxContents() } }.get()
    }
}

extension OutboxContents {
    /// What the database knows of what waits.
    fileprivate mutating func add(from db: Database) throws {
        let isOwned = try OutboxTables.exist(db)
        let retries = isOwned ? try OutboxTables.retries(db) : [:]
        var failing: [String: UUID] = [:]
        for index in waiting.indices {
            let command = waiting[index]
            if isOwned, let outcome = try OutboxTables.outcome(of: command.id, db) {
                waiting[index].waitsFor = .removal(outcome)
                continue
            }
            waiting[index].attempts = 0
            if let retry = retries[command.id] {
                waiting[index].attempts = retry.attempts
                waiting[index].nextTry = retry.next
                waiting[index].lastError = retry.error
            }
            guard command.waitsFor == .owner else { continue }
            if let earlier = failing[command.sender] {
                waiting[index].waitsFor = .earlierCommand(earlier)
            } else if retries[command.id] != nil {
                waiting[index].waitsFor = .nextTry
                failing[command.sender] = command.id
            }
        }
    }
}

extension WaitingCommand {
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
