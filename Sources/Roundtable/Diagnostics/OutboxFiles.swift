import Foundation
import GRDB
import RoundtableKernel

/// A file of an outbox that is no command which waits: what is wrong with it, and what can be done.
package struct OutboxFile: Sendable, Equatable {
    package enum Kind: Sendable, Equatable {
        case damaged(reason: String)
        /// Of a version of Roundtable that this program does not know.
        case newer(format: UInt32)
        case unreadable(reason: String)
        /// An owner has moved it away, and by now it is a whole command.
        case whole(WaitingCommand)
    }

    package let path: String
    package let kind: Kind
    /// Whether an owner has moved it away: it keeps no other command waiting.
    package let isSetAside: Bool
    /// nil when it cannot be told.
    package let size: Int?
    package let changed: Date?

    package var name: String { (path as NSString).lastPathComponent }
}

/// The files of an outbox, for those who look after it.
package struct OutboxFiles: Sendable {
    private let folder: OutboxFolder

    /// Beside a database.
    package init(forDatabaseAt url: URL) throws { folder = OutboxFolder(databasePath: try DatabaseFile(url).path) }

    /// - throws: ``OutboxError``.
    package init(at url: URL) throws { folder = try OutboxFolder(at: url) }

    package var path: String { folder.path }
    package var commandsPath: String { folder.commands }

    /// Whether there is an outbox.
    package var exists: Bool { (try? System.status(ofFileAt: folder.commands)) != nil }

    /// Whether there is its folder, which may have been made for it.
    package var hasFolder: Bool { (try? System.status(ofFileAt: folder.path)) != nil }

    /// What is said where the folder beside a database is missing.
    package static func noneBeside(_ path: String) -> String {
        "No outbox beside the database (\(path)). If the program has it elsewhere (Options.outboxFolder), name it: --folder FOLDER."
    }

    /// Those that are no commands which wait, in the order of their names.
    package func strange(in contents: OutboxContents) -> [OutboxFile] {
        (Array(contents.damaged) + Array(contents.unreadable))
            .map { file(at: $0.key, reason: $0.value) }
            .sorted { ($0.name, $0.path) < ($1.name, $1.path) }
    }

    /// What lies among the commands, and has not the name of one: owners leave it alone.
    package func foreignNames() throws -> [String] {
        (try System.names(inFolder: folder.commands) ?? []).filter { CommandFileName($0) == nil }.sorted()
    }

    private func file(at path: String, reason: String) -> OutboxFile {
        let status = try? System.status(ofFileAt: path)
        return OutboxFile(
            path: path,
            kind: kind(of: path, reason: reason),
            isSetAside: (path as NSString).deletingLastPathComponent == folder.damaged,
            size: status.map { Int($0.st_size) },
            changed: status.map { Date(timeIntervalSince1970: Double($0.modificationTime) / 1e9) }
        )
    }

    private func kind(of path: String, reason: String) -> OutboxFile.Kind {
        do {
            guard let bytes = try folder.contents(ofFileAt: path, limit: CommandFile.maximumSize) else {
                return .damaged(reason: "it has gone")
            }
            switch CommandFile.content(of: bytes) {
            case .newer(let format): return .newer(format: format)
            case .damaged(let reason, _): return .damaged(reason: reason)
            case .command(let command):
                let name = CommandFileName((path as NSString).lastPathComponent)
                guard name?.sender == command.sender else {
                    let taken = name.map { "named as if by '\($0.sender)'" } ?? "of a name that no command has"
                    return .damaged(reason: "submitted by '\(command.sender)', and \(taken)")
                }
                return .whole(WaitingCommand(command, path: path))
            }
        } catch let error as SystemError where !error.isNoFile {
            return .unreadable(reason: error.reason)
        } catch {
            return .damaged(reason: reason)
        }
    }

    /// Takes a whole command that was moved away back into the queue, to the place that its name says.
    ///
    /// - throws: ``OutboxError``.
    package func takeBack(_ file: OutboxFile) throws {
        do {
            try System.renameFile(at: file.path, toUnused: "\(folder.commands)/\(file.name)")
            try System.syncFolder(at: folder.commands)
        } catch let error as SystemError {
            throw OutboxError(error, folder: folder.path)
        }
    }

    /// Removes a file that is no command which waits.
    ///
    /// - returns: false when it had gone.
    /// - throws: ``OutboxError``.
    package func remove(_ file: OutboxFile) throws -> Bool {
        do {
            guard try System.removeFile(at: file.path) else { return false }
            try System.syncFolder(at: (file.path as NSString).deletingLastPathComponent)
            return true
        } catch let error as SystemError {
            throw OutboxError(error, folder: folder.path)
        }
    }
}

extension SharedDatabase {
    /// How often a command has failed since it is tried, or tried anew, and when it is tried again; nil when it has not.
    package func outboxRetry(of id: UUID) throws -> (attempts: Int, next: Date, error: String)? {
        try read { db in
            guard try OutboxTables.exist(db), let retry = try OutboxTables.retry(of: id, db) else { return nil }
            return (retry.attempts, retry.next, retry.error)
        }
    }
}
