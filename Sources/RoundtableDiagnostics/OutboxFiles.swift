import Foundation
import GRDB
import RoundtableCore
import RoundtableDelivery
import RoundtableFiles
import RoundtableKernel

/// A file of an outbox that is not a waiting command: what is wrong with it, and what can be done.
package struct OutboxFile: Sendable, Equatable {
    package enum Kind: Sendable, Equatable {
        case damaged(reason: String)
        /// The file was written by a version of Roundtable that this program does not know.
        case newer(format: UInt32)
        case unreadable(reason: String)
        /// An owner has set the file aside, and by now it is a whole command.
        case whole(WaitingCommand)
    }

    package let path: String
    package let kind: Kind
    /// Whether an owner has set the file aside. It then delays no other command.
    package let isSetAside: Bool
    package let isFolder: Bool
    /// The size in bytes; nil when it is not known.
    package let size: Int?
    package let changed: Date?

    package var name: String { (path as NSString).lastPathComponent }
}

/// The files of an outbox, for programs that maintain it.
package struct OutboxFiles: Sendable {
    private let folder: OutboxFolder

    /// The files of the outbox beside a database.
    package init(forDatabaseAt url: URL) throws { folder = OutboxFolder(databasePath: try DatabaseFile(url).path) }

    /// - throws: ``OutboxError``.
    package init(at url: URL) throws { folder = try OutboxFolder(at: url) }

    package var path: String { folder.path }
    package var commandsPath: String { folder.path(of: .commands) }

    /// Whether there is an outbox.
    package var exists: Bool { (try? System.status(ofFileAt: folder.path(of: .commands))) != nil }

    /// Whether the folder of the outbox exists. It may have been made before there is an outbox in it.
    package var hasFolder: Bool { (try? System.status(ofFileAt: folder.path)) != nil }

    /// The message for a missing folder beside a database.
    package static func noneBeside(_ path: String) -> String {
        "No outbox beside the database (\(path)). If the program has it elsewhere (Options.outboxFolder), name it: --folder FOLDER."
    }

    /// Enumerates the files of the outbox, with what a database knows of them.
    package func walk(asking database: SharedDatabase?) -> OutboxWalk { OutboxWalk(folder, asking: database) }

    /// The names of files among the commands that are no names of commands. Owners leave those files alone.
    package func foreignNames() throws -> [String] {
        (try folder.names(in: .commands) ?? []).filter { CommandFileName($0) == nil }.sorted()
    }

    /// Inspects a file that is not a waiting command.
    ///
    /// - Parameters:
    ///   - path: the path that ``OutboxWalk`` has reported.
    ///   - reason: the reason that ``OutboxWalk`` has given.
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
            case nil: return .damaged(reason: "it no longer exists")
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
        } catch let error as SystemError where !error.isMissingFile {
            return .unreadable(reason: error.reason)
        } catch {
            return .damaged(reason: reason)
        }
    }

    /// Moves a whole command that was set aside back into the queue, to the place that its name determines.
    ///
    /// - throws: ``OutboxError``.
    package func takeBack(_ file: OutboxFile) throws {
        try folder.translating {
            let commands = try folder.open(.commands)
            try folder.open(.damaged).renameFile(file.name, toUnused: file.name, in: commands)
            try commands.sync()
        }
    }

    /// Removes a file that is not a waiting command, or a folder with all that is in it.
    ///
    /// - returns: false when it does not exist any more.
    /// - throws: ``OutboxError``.
    package func remove(_ file: OutboxFile) throws -> Bool {
        try folder.translating {
            guard let part = try folder.openIfThere(place(of: file.path).part), try part.removeAll(file.name) else {
                return false
            }
            try part.sync()
            return true
        }
    }
}
