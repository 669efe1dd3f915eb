import Foundation
import RoundtableKernel

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The folder of an outbox, and what lies where in it: beside the database, or wherever the program has it.
///
/// Symbolic links in a path that the program gives are resolved, once. None is followed from then on: not in the place of the folder, nor in it.
struct OutboxFolder: Sendable {
    /// Without symbolic links, so that all processes mean the same folder.
    let path: String
    /// nil where it is not known: a sender need not know it.
    let databasePath: String?
    /// Whether the program has named the database, and not the folder: the name of a folder may only look like that of an outbox beside one.
    private let isOfNamedDatabase: Bool

    private static let ending = "-outbox"

    /// Beside a database.
    ///
    /// - parameter databasePath: without symbolic links.
    init(databasePath: String) {
        self.databasePath = databasePath
        path = databasePath + Self.ending
        isOfNamedDatabase = true
    }

    /// - Parameters:
    ///   - url: the folder. It need not exist; the one that it is in must.
    ///   - databasePath: without symbolic links. nil: that of the database that the folder lies beside, by its name.
    /// - throws: ``OutboxError``.
    init(at url: URL, databasePath: String? = nil) throws {
        guard url.isFileURL else {
            throw OutboxError.folderNotUsable(path: url.absoluteString, reason: "it is no URL of a file")
        }
        path = DatabaseFile.resolved(url.path)
        let isBeside = path.hasSuffix(Self.ending) && !path.hasSuffix("/" + Self.ending)
        isOfNamedDatabase = databasePath != nil
        self.databasePath = databasePath ?? (isBeside ? String(path.dropLast(Self.ending.count)) : nil)
        do {
            // One look, so that nothing comes between two. A link that is left in its place was not resolved.
            let status = try System.statusOfLink(at: path)
            if let status, !status.isFolder {
                let link = "it is a symbolic link that leads in a circle, or that has just been put there"
                let reason = status.isSymbolicLink ? link : "it is no folder"
                throw OutboxError.folderNotUsable(path: path, reason: reason)
            }
            if status == nil, try System.status(ofFileAt: parent) == nil {
                throw OutboxError.folderMissing(path: parent)
            }
            if let name = try System.networkFileSystem(holding: status == nil ? parent : path) {
                let reason = "it is on a network file system (\(name)), where nobody is told of what others submit"
                throw OutboxError.folderNotUsable(path: path, reason: reason)
            }
        } catch let error as SystemError {
            throw OutboxError(error, folder: path)
        }
    }

    /// Where the folder is.
    var parent: String { (path as NSString).deletingLastPathComponent }

    /// Where the database that the program has named is to be, while there is none: nobody can apply anything.
    ///
    /// - throws: `SystemError`.
    var missingDatabase: String? {
        get throws {
            guard isOfNamedDatabase, let databasePath else { return nil }
            return try System.status(ofFileAt: databasePath) == nil ? databasePath : nil
        }
    }

    // MARK: Inside of it

    /// The folders of an outbox.
    enum Part: String, CaseIterable { case commands, new, questions, answers, damaged, owners }

    /// For messages, and to be watched. Files are reached by ``open(_:)``.
    func path(of part: Part) -> String { "\(path)/\(part)" }
    func path(of name: CommandFileName) -> String { "\(path(of: .commands))/\(name)" }

    /// A folder of the outbox, to be read or changed. Neither it nor the outbox itself may be a symbolic link (rule G5).
    ///
    /// - throws: `SystemError`: `ENOENT`, `ENOTDIR`, `ELOOP`.
    func open(_ part: Part) throws -> OpenFolder { try OpenFolder(at: path).folder(part.rawValue) }

    /// nil when it is not there.
    func openIfThere(_ part: Part) throws -> OpenFolder? { try OpenFolder.ifThere { try open(part) } }

    /// The names of what is in it; nil when it is not there.
    func names(in part: Part) throws -> [String]? { try openIfThere(part)?.names() }

    func status(of name: String, in part: Part) throws -> FileStatus? { try openIfThere(part)?.status(ofFile: name) }

    /// - returns: false when there was no such file.
    @discardableResult
    func remove(_ name: String, from part: Part) throws -> Bool { try openIfThere(part)?.removeFile(name) ?? false }

    /// For what is in nobody's way when it stays.
    func removeIfPossible(_ name: String, from part: Part) {
        (try? openIfThere(part))??.removeIfPossible(name)
    }

    /// Waits until the names in it are on the disk.
    func sync(_ part: Part) throws { try open(part).sync() }

    /// Puts a file into a folder of the outbox, whole or not at all: it is written in `new`, then gets its name.
    ///
    /// - Parameters:
    ///   - isReplacing: whether something may have that name.
    ///   - prepare: is given the path of the file before it gets its name.
    func put(
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

    /// What the names of files in `new` begin with.
    private static let unfinished = "outbox"

    /// Who may use the outbox: beside a database, those who may use the database; elsewhere, and before there is a database, those who may use
    /// the folder. nil when there is neither: whoever the umask lets.
    func access() throws -> FileAccess? {
        if let databasePath, path == databasePath + Self.ending, let file = try System.status(ofFileAt: databasePath) {
            return FileAccess(file)
        }
        return try System.statusOfLink(at: path).map(FileAccess.init)
    }

    /// Makes what is missing.
    ///
    /// - parameter access: nil for what the umask leaves.
    /// - returns: whether the folder itself was missing.
    /// - throws: `SystemError`, with `ELOOP` where a symbolic link has the outbox's place; ``OutboxError/folderMissing(path:)``. A link in place of a
    ///   folder in it is met by who opens that.
    @discardableResult
    func make(_ access: FileAccess?) throws -> Bool {
        do {
            let isNew = try System.makeFolder(at: path, access: access)
            let outbox = try OpenFolder(at: path)
            if isNew, access == nil { try giveToOwner(of: System.status(ofFileAt: parent), outbox) }
            for part in Part.allCases where try outbox.makeFolder(part.rawValue, access: access) && access == nil {
                try giveToOwner(of: System.statusOfLink(at: path), outbox.folder(part.rawValue))
            }
            return isNew
        } catch let error as SystemError where error.errno == ENOENT {
            throw OutboxError.folderMissing(path: parent)
        }
    }

    /// What the superuser makes before there is a database is for whoever owns the folder that it is in.
    private func giveToOwner(of parent: FileStatus?, _ folder: @autoclosure () throws -> OpenFolder) throws {
        guard geteuid() == 0, let parent, parent.st_uid != 0 else { return }
        try folder().giveAway(owner: parent.st_uid, group: parent.st_gid)
    }

    /// Removes what lies there for nobody any more (rules X10, V3).
    func removeRemains(now: Date) throws {
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
