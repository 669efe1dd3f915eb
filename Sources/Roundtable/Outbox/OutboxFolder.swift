import Foundation
import RoundtableKernel

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The folder of an outbox, and what lies where in it: beside the database, or wherever the program has it.
struct OutboxFolder: Sendable {
    /// Without symbolic links, so that all processes mean the same folder.
    let path: String
    /// nil where it is not known: a sender need not know it.
    let databasePath: String?

    private static let ending = "-outbox"

    /// Beside a database.
    ///
    /// - parameter databasePath: without symbolic links.
    init(databasePath: String) {
        self.databasePath = databasePath
        path = databasePath + Self.ending
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
        self.databasePath = databasePath ?? (isBeside ? String(path.dropLast(Self.ending.count)) : nil)
        do {
            let status = try System.status(ofFileAt: path)
            if let status, !status.isFolder {
                throw OutboxError.folderNotUsable(path: path, reason: "it is no folder")
            }
            // Links to a folder that is still to be made were followed.
            if status == nil, try System.statusOfLink(at: path) != nil {
                throw OutboxError.folderNotUsable(path: path, reason: "it is a symbolic link that leads in a circle")
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
    var commands: String { path + "/commands" }
    var new: String { path + "/new" }
    var questions: String { path + "/questions" }
    var answers: String { path + "/answers" }
    var damaged: String { path + "/damaged" }
    var owners: String { path + "/owners" }

    func command(_ name: CommandFileName) -> String { "\(commands)/\(name)" }
    func question(_ id: UUID) -> String { "\(questions)/\(id.uuidString)" }
    func answer(_ id: UUID) -> String { "\(answers)/\(id.uuidString)" }

    /// The bytes of a file of the outbox, which is neither a link nor, by a second name, the database.
    func contents(ofFileAt path: String, limit: Int) throws -> [UInt8]? {
        try System.contents(ofFileAt: path, limit: limit, followingLinks: false, notOf: databasePath)
    }

    /// What the names of files in `new` begin with.
    static let unfinished = "outbox"

    /// Who may use the outbox: beside a database, those who may use the database; elsewhere, and before there is a database, those who may use
    /// the folder. nil when there is neither: whoever the umask lets.
    func access() throws -> FileAccess? {
        if let databasePath, path == databasePath + Self.ending, let file = try System.status(ofFileAt: databasePath) {
            return FileAccess(file)
        }
        return try System.status(ofFileAt: path).map(FileAccess.init)
    }

    /// Makes what is missing.
    ///
    /// - parameter access: nil for what the umask leaves.
    /// - returns: whether the folder itself was missing.
    @discardableResult
    func make(_ access: FileAccess?) throws -> Bool {
        do {
            var isNew = false
            for folder in [path, commands, new, questions, answers, damaged, owners] {
                guard try System.makeFolder(at: folder, access: access) else { continue }
                if folder == path { isNew = true }
                if access == nil { try giveToOwnerOfParent(folder) }
            }
            return isNew
        } catch let error as SystemError where error.errno == ENOENT {
            throw OutboxError.folderMissing(path: parent)
        }
    }

    /// What the superuser makes before there is a database is for whoever owns the folder.
    private func giveToOwnerOfParent(_ folder: String) throws {
        guard geteuid() == 0 else { return }
        let parent = (folder as NSString).deletingLastPathComponent
        guard let status = try System.status(ofFileAt: parent), status.st_uid != 0 else { return }
        try System.giveAway(folder, owner: status.st_uid, group: status.st_gid)
    }

    /// Removes what lies there for nobody any more (rules X10, V3).
    func removeRemains(now: Date) throws {
        try UnfinishedFile.removeAbandoned(in: new, Self.unfinished)
        try removeFiles(in: answers, olderThan: 3600, now)
        try removeFiles(in: questions, olderThan: 24 * 3600, now)
    }

    private func removeFiles(in folder: String, olderThan age: TimeInterval, _ now: Date) throws {
        for name in try System.names(inFolder: folder) ?? [] where UUID(uuidString: name) != nil {
            guard let status = try System.status(ofFileAt: "\(folder)/\(name)") else { continue }
            if now.timeIntervalSince1970 - Double(status.modificationTime) / 1e9 > age {
                try System.removeFile(at: "\(folder)/\(name)")
            }
        }
    }
}
