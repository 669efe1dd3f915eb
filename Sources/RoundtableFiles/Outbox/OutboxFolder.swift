import Foundation
import RoundtableKernel

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The folder of an outbox and the folders in it. It lies beside the database, or where the program puts it.
///
/// Symbolic links in a path that the program gives are resolved once. After that, no link is followed, neither in place of the folder
/// nor inside of it.
package struct OutboxFolder: Sendable {
    /// The path without symbolic links, so that all processes use the same folder.
    package let path: String
    /// The path of the database; nil if it is unknown, because a sender need not know it.
    package let databasePath: String?
    /// Whether the program named the database rather than the folder. A folder's name alone may resemble that of an outbox beside a
    /// database by chance.
    private let isOfNamedDatabase: Bool

    private static let ending = "-outbox"

    /// Describes the outbox beside a database.
    ///
    /// - parameter databasePath: the path of the database, without symbolic links.
    package init(databasePath: String) {
        self.databasePath = databasePath
        path = databasePath + Self.ending
        isOfNamedDatabase = true
    }

    /// Describes the outbox beside a database that need not exist.
    ///
    /// - throws: ``OutboxError`` if a database at that path could not be shared, or if its folder does not exist.
    package init(forDatabaseAt url: URL) throws {
        guard url.isFileURL else {
            throw OutboxError.databaseNotUsable(path: url.absoluteString, reason: "is not a file URL")
        }
        let path = System.resolvedPath(url.path)
        guard path.utf8.count <= DatabasePlace.longestPath else {
            let reason = "is longer than \(DatabasePlace.longestPath) bytes, with symbolic links followed"
            throw OutboxError.databaseNotUsable(path: url.path, reason: reason)
        }
        do {
            let place = try DatabasePlace(resolved: path)
            guard place.hasFolder else { throw OutboxError.file(path: place.folder, .folderMissing) }
        } catch DatabasePlace.Refusal.notAFile(let reason) {
            throw OutboxError.databaseNotUsable(path: url.path, reason: reason)
        } catch DatabasePlace.Refusal.networkFileSystem(let name) {
            let reason =
                "is on a network file system (\(name)), where processes of several machines cannot share a database"
            throw OutboxError.databaseNotUsable(path: url.path, reason: reason)
        } catch let error as SystemError {
            throw OutboxError(error, folder: url.path)
        }
        self.init(databasePath: path)
    }

    /// - Parameters:
    ///   - url: the folder. It need not exist, but its parent must.
    ///   - databasePath: the path of the database, without symbolic links. If nil, it is derived from a folder name that ends in `-outbox`.
    /// - throws: ``OutboxError``.
    package init(at url: URL, databasePath: String? = nil) throws {
        guard url.isFileURL else {
            throw OutboxError.folderNotUsable(path: url.absoluteString, reason: "it is not a file URL")
        }
        path = System.resolvedPath(url.path)
        let isBeside = path.hasSuffix(Self.ending) && !path.hasSuffix("/" + Self.ending)
        isOfNamedDatabase = databasePath != nil
        self.databasePath = databasePath ?? (isBeside ? String(path.dropLast(Self.ending.count)) : nil)
        try translating {
            // One call decides, so that nothing can change between two. A path that is still a symbolic link here was not resolved.
            let status = try System.statusOfLink(at: path)
            if let status, !status.isFolder {
                let link = "it is a symbolic link that leads in a circle, or that was created just now"
                let reason = status.isSymbolicLink ? link : "it is not a folder"
                throw OutboxError.folderNotUsable(path: path, reason: reason)
            }
            if status == nil, try System.status(ofFileAt: parent) == nil {
                throw OutboxError.file(path: parent, .folderMissing)
            }
            if let name = try System.networkFileSystem(holding: status == nil ? parent : path) {
                let reason =
                    "it is on a network file system (\(name)), where the system does not report what other machines submit"
                throw OutboxError.folderNotUsable(path: path, reason: reason)
            }
        }
    }

    /// The folder that holds the outbox's folder.
    package var parent: String { (path as NSString).deletingLastPathComponent }

    /// The path of the database that the program has named, while there is none. No process can apply commands then.
    ///
    /// - throws: `SystemError`.
    package var missingDatabase: String? {
        get throws {
            guard isOfNamedDatabase, let databasePath else { return nil }
            return try System.status(ofFileAt: databasePath) == nil ? databasePath : nil
        }
    }

    /// Returns the error. That of a system call becomes an ``OutboxError``.
    package func translated(_ error: any Error) -> any Error {
        (error as? SystemError).map { OutboxError($0, folder: path) } ?? error
    }

    /// Runs `body`. The error of a system call becomes an ``OutboxError``.
    @discardableResult
    package func translating<T>(_ body: () throws -> T) throws -> T {
        do { return try body() } catch { throw translated(error) }
    }

    // MARK: Contents

    /// The folders of an outbox.
    package enum Part: String, CaseIterable { case commands, new, questions, answers, damaged, owners }

    /// The path of a folder, for messages and for watching. Files are accessed through ``open(_:)``.
    package func path(of part: Part) -> String { "\(path)/\(part)" }
    package func path(of name: CommandFileName) -> String { "\(path(of: .commands))/\(name)" }

    /// Opens a folder of the outbox for reading or changing. Neither it nor the outbox itself may be a symbolic link (rule G5).
    ///
    /// - throws: `SystemError`: `ENOENT`, `ENOTDIR`, `ELOOP`.
    package func open(_ part: Part) throws -> OpenFolder { try OpenFolder(at: path).folder(part.rawValue) }

    /// Opens a folder of the outbox; nil when it does not exist.
    package func openIfThere(_ part: Part) throws -> OpenFolder? { try OpenFolder.ifThere { try open(part) } }

    /// The names of the entries of a folder; nil when it does not exist.
    package func names(in part: Part) throws -> [String]? { try openIfThere(part)?.names() }

    package func status(of name: String, in part: Part) throws -> FileStatus? {
        try openIfThere(part)?.status(ofFile: name)
    }

    /// - returns: false when there was no such file.
    @discardableResult
    package func remove(_ name: String, from part: Part) throws -> Bool {
        try openIfThere(part)?.removeFile(name) ?? false
    }

    /// Removes a file that does no harm if it stays. Errors are ignored.
    package func removeIfPossible(_ name: String, from part: Part) {
        (try? openIfThere(part))??.removeIfPossible(name)
    }

    /// Waits until the names in a folder are on the disk.
    package func sync(_ part: Part) throws { try open(part).sync() }

    /// Puts a file into a folder of the outbox, whole or not at all: it is written in `new`, then gets its name.
    ///
    /// - Parameters:
    ///   - isReplacing: whether a file of that name is replaced. If not, such a file is an error.
    ///   - prepare: called with the path of the file before the file gets its name.
    package func put(
        _ bytes: [UInt8],
        as name: String,
        in part: Part,
        access: FileAccess?,
        isDurable: Bool = false,
        isReplacing: Bool = true,
        prepare: (String) -> Void = { _ in }
    ) throws {
        let outbox = try OpenFolder(at: path)
        let (new, folder) = (try outbox.folder(Part.new.rawValue), try outbox.folder(part.rawValue))
        let unfinished = UnfinishedFile.name(Self.unfinished)
        try new.makeFile(unfinished, bytes, access: access, isDurable: isDurable)
        do {
            prepare(new.file(unfinished))
            if isReplacing {
                try new.renameFile(unfinished, to: name, in: folder)
            } else {
                try new.renameFile(unfinished, toUnused: name, in: folder)
            }
        } catch {
            new.removeIfPossible(unfinished)
            throw error
        }
    }

    /// The prefix of the names of files in `new`.
    private static let unfinished = "outbox"

    /// The permissions of the outbox: those of the database if the outbox lies beside an existing one, and otherwise those of the folder
    /// (rule X16). nil when there is neither: ``make()`` then creates the folder.
    package func access() throws -> FileAccess? {
        if let databasePath, path == databasePath + Self.ending, let file = try System.status(ofFileAt: databasePath) {
            return FileAccess(file)
        }
        return try System.statusOfLink(at: path).map(FileAccess.init)
    }

    /// Creates the folder and the folders in it where they are missing.
    ///
    /// - returns: whether the folder itself was missing.
    /// - throws: `SystemError`, with `ELOOP` if a symbolic link is in place of the outbox; ``OutboxError/file(path:_:)`` if its parent does not
    ///   exist. A link in place of a folder inside the outbox is detected when that folder is opened.
    @discardableResult
    package func make() throws -> Bool {
        do {
            let known = try access()
            let above = try OpenFolder(at: parent, followingLinks: true)
            let name = (path as NSString).lastPathComponent
            let isNew =
                if let known {
                    try above.makeFolder(name, access: known)
                } else {
                    try above.makeFolder(name, like: above.status())
                }
            let outbox = try OpenFolder(at: path)
            let access = try known ?? access()
            for part in Part.allCases { _ = try outbox.makeFolder(part.rawValue, access: access) }
            return isNew
        } catch let error as SystemError where error.errno == ENOENT {
            throw OutboxError.file(path: parent, .folderMissing)
        }
    }

    /// The name of the file that is there while commands from other machines are handed over whose outcome is not recorded (rule Z7).
    package static let handedOver = "handed-over"

    /// Whether commands from other machines are handed over whose outcome is not recorded.
    package func isHandedOver() throws -> Bool {
        try OpenFolder.ifThere(at: path)?.status(ofFile: Self.handedOver) != nil
    }

    /// Removes unfinished files of dead writers, answers older than an hour and questions older than a day (rules X10, V3).
    package func removeRemains(now: Date) throws {
        if let new = try openIfThere(.new) { try UnfinishedFile.removeAbandoned(in: new, Self.unfinished) }
        try removeFiles(in: .answers, olderThan: 3600, now)
        try removeFiles(in: .questions, olderThan: 24 * 3600, now)
    }

    private func removeFiles(in part: Part, olderThan age: TimeInterval, _ now: Date) throws {
        guard let folder = try openIfThere(part) else { return }
        for name in try folder.names() where UUID(uuidString: name) != nil {
            guard let status = try folder.status(ofFile: name) else { continue }
            if now.timeIntervalSince1970 - Double(status.modificationTime) / 1e9 > age {
                try folder.removeFile(name)
            }
        }
    }
}
