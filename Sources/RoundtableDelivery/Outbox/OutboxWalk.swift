import Foundation
import GRDB
import RoundtableCore
import RoundtableFiles
import RoundtableKernel

/// Enumerates the contents of an outbox page by page. Only one page and the names of the files are in memory, however many commands wait.
package struct OutboxWalk: Sendable {
    /// Something found in an outbox.
    package enum Find: Sendable {
        case waiting(WaitingCommand)
        /// A file that is not a whole command. The owner has moved it away, or will.
        case damaged(path: String, reason: String)
        /// A file that a newer version of Roundtable has written, or that this process may not read.
        case unreadable(path: String, reason: String)
    }

    private let folder: OutboxFolder
    /// The database that adds what it knows of the commands; nil to read files only.
    private let database: SharedDatabase?

    /// The limits of a page: it ends at either one.
    private static let maximumCount = 500
    private static let maximumBytes = 4 << 20

    package init(_ folder: OutboxFolder, asking database: SharedDatabase? = nil) {
        self.folder = folder
        self.database = database
    }

    /// - parameter body: called with each item found. The commands of one sender come in the order in which they are applied.
    /// - throws: ``OutboxError``; `DatabaseError`; what `body` throws.
    package func run(_ body: (Find) throws -> Void) throws {
        try folder.translating {
            try runThroughCommands(body)
            try runThroughDamaged(body)
        }
    }

    private func runThroughCommands(_ body: (Find) throws -> Void) throws {
        var page = Page()
        if let commands = try folder.openIfThere(.commands) {
            // The first file of each sender that keeps later ones from being applied, by the sender as names have it.
            var obstacles: [String: String] = [:]
            for name in try commands.names().compactMap(CommandFileName.init).sorted() {
                let path = folder.path(of: name)
                let obstacle = obstacles[name.encodedSender]
                var problem: Find?
                do {
                    switch try CommandFile.read(name, in: commands, notOf: folder.databasePath) {
                    case nil: break
                    case .command(let command):
                        var waits = WaitingCommand(command, path: path)
                        if let obstacle { waits.waitsFor = .earlierFile(path: obstacle) }
                        page.append(waits)
                    case .damaged(let reason, _): problem = .damaged(path: path, reason: reason)
                    case .newer(let format):
                        problem = .unreadable(path: path, reason: "format \(format), of a newer version of Roundtable")
                    }
                } catch {
                    problem = .unreadable(path: path, reason: "\(error)")
                }
                if case .unreadable = problem { obstacles[name.encodedSender] = obstacle ?? path }
                if let problem { try body(problem) }
                if page.commands.count >= Self.maximumCount || page.bytes >= Self.maximumBytes {
                    try end(&page, body)
                }
            }
        }
        // The database is read even if the last page is empty, so that an error of reading it is detected.
        try end(&page, body)
    }

    private func end(_ page: inout Page, _ body: (Find) throws -> Void) throws {
        // The files are read before the database, so that what is applied in between is known.
        page = try database?.read { [page] in try page.completed(from: $0) } ?? page
        for command in page.commands { try body(.waiting(command)) }
        page.removeCommands()
    }

    private func runThroughDamaged(_ body: (Find) throws -> Void) throws {
        guard let damaged = try folder.openIfThere(.damaged) else { return }
        for name in try damaged.names() {
            let reason =
                switch try? CommandFile.read(name, in: damaged, notOf: folder.databasePath) {
                case nil: "it cannot be read"
                case .damaged(let reason, _): reason
                case .command(let command) where command.sender != CommandFileName(name)?.sender:
                    "submitted by '\(command.sender)', and named as if by another"
                case .command, .newer:
                    "now whole: it is applied when it is moved back into \(folder.path(of: .commands))"
                }
            try body(.damaged(path: damaged.file(name), reason: reason))
        }
    }
}

extension OutboxWalk {
    /// The commands that are in memory together.
    private struct Page: Sendable {
        private(set) var commands: [WaitingCommand] = []
        private(set) var bytes = 0
        /// The first command of each sender that is to be retried, on this page or an earlier one.
        private var failing: [String: UUID] = [:]

        mutating func append(_ command: WaitingCommand) {
            commands.append(command)
            bytes += command.payload.count
        }

        mutating func removeCommands() {
            commands.removeAll(keepingCapacity: true)
            bytes = 0
        }

        /// Returns the page with what the database knows of its commands.
        func completed(from db: Database) throws -> Page {
            var page = self
            let isOwned = try OutboxTables.exist(db)
            let ids = commands.map(\.id)
            let outcomes = isOwned ? try OutboxTables.outcomes(of: ids, db) : [:]
            let retries = isOwned ? try OutboxTables.retries(of: ids, db) : [:]
            for index in commands.indices {
                let command = commands[index]
                if let outcome = outcomes[command.id] {
                    page.commands[index].waitsFor = .removal(outcome)
                    continue
                }
                let retry = retries[command.id]
                page.commands[index].attempts = retry?.attempts ?? 0
                page.commands[index].nextTry = retry?.next
                page.commands[index].lastError = retry?.error
                guard command.waitsFor == .owner else { continue }
                if let earlier = page.failing[command.sender] {
                    page.commands[index].waitsFor = .earlierCommand(earlier)
                } else if retry != nil {
                    page.commands[index].waitsFor = .nextTry
                    page.failing[command.sender] = command.id
                }
            }
            return page
        }
    }
}

extension SharedDatabase {
    /// Calls `body` with each dead letter, the oldest first, page by page. A page has at most 100 dead letters.
    ///
    /// - throws: `DatabaseError`; ``OutboxError/newerFormat(path:format:)``; what `body` throws.
    package func forEachDeadLetter(_ body: (DeadLetter) throws -> Void) throws {
        var last = Int64.min
        while true {
            let page = try read { [last] db in
                try OutboxTables.exist(db) ? try OutboxTables.deadLetters(after: last, db) : []
            }
            guard let end = page.last?.sequence else { return }
            for (_, letter) in page { try body(letter) }
            last = end
        }
    }
}
