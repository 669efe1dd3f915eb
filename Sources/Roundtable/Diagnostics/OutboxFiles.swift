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
    package let isFolder: Bool
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
    package var commandsPath: String { folder.path(of: .commands) }

    /// Whether there is an outbox.
    package var exists: Bool { (try? System.status(ofFileAt: folder.path(of: .commands))) != nil }

    /// Whether there is its folder, which may have been made for it.
    package var hasFolder: Bool { (try? System.status(ofFileAt: folder.path)) != nil }

    /// What is said where the folder beside a database is missing.
    package static func noneBeside(_ path: String) -> String {
        "No outbox beside the database (\(path)). If the program has it elsewhere (Options.outboxFolder), name it: --folder FOLDER."
    }

    /// What is there, and what a database knows of it.
    package func walk(asking database: SharedDatabase?) -> OutboxWalk { OutboxWalk(folder, asking: database) }

    /// What lies among the commands, and has not the name of one: owners leave it alone.
    package func foreignNames() throws -> [String] {
        (try folder.names(in: .commands) ?? []).filter { CommandFileName($0) == nil }.sorted()
    }

    /// Looks at a file that is no command which waits.
    ///
    /// - Parameters:
    ///   - path: as ``OutboxWalk`` has found it.
    ///   - reason: what it said of it.
    package func file(at path: String, reason: String) -> OutboxFile {
        let place = place(of: path)
        let status = (try? folder.status(of: place.name, in: place.part)) ?? nil
        return OutboxFile(
            path: path,
            kind: kind(of: place, path, reason: reason),
            isSetAside: place.part == .damaged,
            isFolder: status?.isFolder ?? false,
            size: status.map { Int($0.st_size) },
            changed: status.map { Date(timeIntervalSince1970: Double($0.modificationTime) / 1e9) }
        )
    }

    private func place(of path: String) -> (name: String, part: OutboxFolder.Part) {
        let isSetAside = (path as NSString).deletingLastPathComponent == folder.path(of: .damaged)
        return ((path as NSString).lastPathComponent, isSetAside ? .damaged : .commands)
    }

    private func kind(
        of place: (name: String, part: OutboxFolder.Part),
        _ path: String,
        reason: String
    ) -> OutboxFile.Kind {
        do {
            let found = try folder.openIfThere(place.part).flatMap {
                try CommandFile.read(place.name, in: $0, notOf: folder.databasePath)
            }
            switch found {
            case nil: return .damaged(reason: "it has gone")
            case .newer(let format): return .newer(format: format)
            case .damaged(let reason, _): return .damaged(reason: reason)
            case .command(let command):
                let name = CommandFileName(place.name)
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
            let commands = try folder.open(.commands)
            try folder.open(.damaged).renameFile(file.name, toUnused: file.name, in: commands)
            try commands.sync()
        } catch let error as SystemError {
            throw OutboxError(error, folder: folder.path)
        }
    }

    /// Removes a file that is no command which waits, or a folder with all that is in it.
    ///
    /// - returns: false when it had gone.
    /// - throws: ``OutboxError``.
    package func remove(_ file: OutboxFile) throws -> Bool {
        do {
            guard let folder = try folder.openIfThere(place(of: file.path).part), try folder.removeAll(file.name) else {
                return false
            }
            try folder.sync()
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
