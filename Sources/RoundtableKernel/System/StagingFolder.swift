#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

// Rule V3a: A *private folder* has mode 0700, a name of the form of V2, and the file `.roundtable-staging`: `roundtable `, the folder's
// inode in decimal, a line end. One of a dead process is removed with its content if folder and file are the remover's own, the folder is
// for nobody else, the file is a regular one with one name, and both lie on the file system around them. So is an empty one of the own
// user. No other file system is entered.

/// A private folder in another folder, for files that get their places later. It is created under a name that must be unused, and reached by
/// its descriptor alone: a user who may write the folder around it can move it away, and put something else in its place, but changes
/// nothing in it.
///
/// A file in it, ``mark``, says that it is such a folder. Only then does a later process remove it, because a user who may write the folder
/// around it can also give its name to any other folder of this user.
package struct StagingFolder: Sendable {
    package let folder: OpenFolder
    private let parent: OpenFolder
    private let name: String

    /// The path leads to the folder while ``isInPlace``.
    package var path: String { folder.path }

    /// - throws: `SystemError`, `EEXIST` when the name is in use; ``ReplacedFileError``.
    package init(_ name: String, in parent: OpenFolder) throws {
        (self.parent, self.name) = (parent, name)
        folder = try parent.makePrivateFolder(name)
        do {
            try mark()
        } catch {
            if isInPlace { parent.removeFolderIfEmpty(name) }
            throw error
        }
    }

    private init(_ folder: OpenFolder, named name: String, in parent: OpenFolder) {
        (self.folder, self.name, self.parent) = (folder, name, parent)
    }

    /// Whether the name is still that of the folder.
    package var isInPlace: Bool {
        guard let status = try? parent.status(ofFile: name), let own = try? folder.status() else { return false }
        return FileIdentity(status) == FileIdentity(own)
    }

    /// Opens a folder below this one. No name on the way may be a symbolic link.
    ///
    /// - parameter path: relative to this folder.
    /// - returns: nil when there is none.
    package func folder(at path: some StringProtocol) throws -> OpenFolder? {
        try OpenFolder.ifThere { try path.split(separator: "/").reduce(folder) { try $0.folder(String($1)) } }
    }

    /// All bytes of a file below this folder, as `OpenFolder.contents(ofFile:limit:notOf:)` reads them.
    package func contents(ofFileAt path: String, limit: Int) throws -> [UInt8]? {
        let (above, name) = System.place(of: path)
        return try folder(at: above)?.contents(ofFile: name, limit: limit)
    }

    // MARK: Removing

    /// Removes the folder with all that is in it, and ignores failures. What has its name by now stays.
    package func remove() {
        _ = try? folder.removeContents()
        guard isInPlace else { return }
        parent.removeFolderIfEmpty(name)
        // A program whose parent was killed may still have written a file, so that the folder stays. It is removed later.
        if isInPlace { try? mark() }
    }

    private func mark() throws {
        try folder.makeFile(Self.mark, Self.mark(of: folder.status()), access: nil, isDurable: false)
    }

    /// The name of the file that marks the folder.
    package static let mark = ".roundtable-staging"

    /// The mark's content. It has the folder's inode, so that a file which was copied or unpacked into another folder marks nothing.
    private static func mark(of folder: FileStatus) -> [UInt8] { Array("roundtable \(folder.st_ino)\n".utf8) }

    /// Whether a process of this user has made the folder, and no other user could change what is in it.
    private var isMarked: Bool {
        get throws {
            let (status, user) = (try folder.status(), geteuid())
            guard status.st_uid == user, status.st_mode & 0o077 == 0, let mark = try folder.status(ofFile: Self.mark),
                mark.isRegularFile, mark.st_uid == user, mark.st_nlink == 1
            else { return false }
            let (expected, found) = (Self.mark(of: status), try folder.contents(ofFile: Self.mark, limit: 64) ?? [])
            // A process that was killed while it wrote the mark has written nothing else.
            return try found == expected || expected.starts(with: found) && folder.names() == [Self.mark]
        }
    }

    /// Removes a folder that a process of this user has left: one with the mark, or an empty one. Anything else stays.
    ///
    /// - returns: whether nothing has the name now.
    package static func remove(_ name: String, in parent: OpenFolder) throws -> Bool {
        guard let status = try parent.status(ofFile: name) else { return true }
        guard status.isFolder, status.st_uid == geteuid() else { return false }
        guard let folder = try OpenFolder.ifThere({ try parent.folder(name) }) else { return false }
        let staging = StagingFolder(folder, named: name, in: parent)
        if try folder.status().st_dev == parent.status().st_dev, try staging.isMarked {
            staging.remove()
        } else {
            parent.removeFolderIfEmpty(name)
        }
        return try parent.status(ofFile: name) == nil
    }

    /// Removes the folders that processes have left which were killed, as ``remove(_:in:)`` does.
    ///
    /// - parameter prefix: of the folders' names, which are those of unfinished files.
    package static func removeAbandoned(in parent: OpenFolder, _ prefix: String) throws {
        for name in try UnfinishedFile.abandoned(in: parent, prefix) { _ = try remove(name, in: parent) }
    }
}

/// A file or folder is not the one that this process has written. It carries what is there instead.
package struct ReplacedFileError: Error, Equatable, CustomStringConvertible {
    package let path: String
    /// Owner, group and mode.
    package let found: String

    package var description: String {
        "\(path): is not what this process has written, but has \(found): another user has replaced it. Use a folder that no other user may write."
    }
}

extension OpenFolder {
    /// The result of `fstat`.
    package func status() throws -> FileStatus { try System.status(ofDescriptor: descriptor, path) }

    /// Whether the folder belongs to this process's user, and nobody else may write it.
    package var isOwn: Bool {
        get throws {
            let status = try status()
            return status.st_uid == geteuid() && status.st_mode & 0o022 == 0
        }
    }

    /// Creates a folder that this process's user alone may enter, and that no process removes. The name must be unused.
    package func makePrivateFolder(_ name: String) throws -> OpenFolder { try makeNewFolder(name, mode: 0o700) }

    /// Lets the users of a file into a private folder that this process has filled: who may read or write the file may do that with the
    /// folder. The superuser also gives the folder to the owner of the file.
    package func share(withUsersOf file: FileStatus) throws {
        let opened = try reopened()
        defer { close(opened) }
        if geteuid() == 0 { try System.perform(.chown, path) { fchown(opened, file.st_uid, file.st_gid) } }
        let status = try System.status(ofDescriptor: opened, path)
        var mode = FileAccess(file).mode
        // The group of the folder may be another one than that of the file.
        if status.st_gid != file.st_gid { mode &= ~0o060 }
        mode |= (mode & 0o444) >> 2
        try System.setMode(status.st_mode & S_ISGID | mode | 0o700, ofDescriptor: opened, path)
    }

    /// Gives a file that this process has written its last permissions, and waits until its contents are on the disk.
    ///
    /// - Parameters:
    ///   - mode: nil leaves it as it is, but lets nobody else write, as SQLite creates a database: a program may leave that to the umask.
    ///   - owner: the user and the group to whom the superuser gives the file; nil leaves them as they are.
    /// - throws: ``ReplacedFileError`` unless the name is that of a regular file of this process's user with no other name.
    package func finishFile(_ name: String, mode: mode_t?, owner: (user: uid_t, group: gid_t)?) throws {
        let path = file(name)
        // O_NONBLOCK: the name may be that of a pipe.
        let opened = try System.perform(.open, path) {
            openat(descriptor, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        }
        defer { close(opened) }
        let status = try System.status(ofDescriptor: opened, path)
        guard status.isRegularFile, status.st_uid == geteuid(), status.st_nlink == 1 else {
            throw ReplacedFileError(path: path, found: status.accessText)
        }
        let wanted = mode ?? status.st_mode & 0o644
        if wanted != status.st_mode & 0o7777 { try System.setMode(wanted, ofDescriptor: opened, path) }
        if let owner { try System.perform(.chown, path) { fchown(opened, owner.user, owner.group) } }
        try System.sync(opened, path)
    }
}

// MARK: Whose folder it is

/// Why another user decides what the names in a folder lead to.
package enum FolderOfOthers: Equatable, Sendable {
    /// Another user owns the folder, who is not the superuser.
    case owner(uid_t)
    /// This process is the superuser's, and users of the folder's group, or all, may replace its files.
    case writers(access: String)
    /// All may create files in the sticky folder, and the file that is to be replaced is another user's.
    case file(owner: uid_t)
}

extension OpenFolder {
    /// Whether another user can replace what this process writes here; nil when nobody can, or only users whom this process's user has let in.
    ///
    /// - parameter file: what is to be replaced, and whose owner and permissions the new file gets.
    package func others(replacing file: FileStatus? = nil) throws -> FolderOfOthers? {
        let (status, user) = (try status(), geteuid())
        if status.st_uid != user, status.st_uid != 0 { return .owner(status.st_uid) }
        // An access control list shows as permissions of the group, whatever group that is. In a sticky folder, only the owner of a file removes or
        // renames it.
        let writers = status.st_mode & 0o022
        if status.st_mode & S_ISVTX != 0, let file, writers != 0,
            ![user, 0, status.st_uid].contains(file.st_uid)
        {
            return .file(owner: file.st_uid)
        }
        guard user == 0, writers != 0, status.st_mode & S_ISVTX == 0 else { return nil }
        return .writers(access: status.accessText)
    }
}
