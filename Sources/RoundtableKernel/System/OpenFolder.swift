#if canImport(Darwin)
    import Darwin
#else
    import CRoundtableShims
    import Glibc
#endif

/// The place of a file: a path, or a name in an open folder (openat(2)).
struct FilePlace {
    let folder: Int32
    let name: String
    /// The path for error messages.
    let path: String

    init(_ path: String) { (folder, name, self.path) = (AT_FDCWD, path, path) }

    init(_ name: String, in folder: OpenFolder) {
        (self.folder, self.name, path) = (folder.descriptor, name, folder.file(name))
    }
}

/// An open folder. Its files are accessed by their names relative to it, so a symbolic link that replaces the folder has no
/// effect. Symbolic links in the folder are not followed either.
///
/// The path serves only error messages and the paths of children, because it may lead elsewhere by now.
package final class OpenFolder: Sendable {
    package let path: String
    /// For `*at` calls, and for programs that inherit it.
    package let descriptor: Int32

    // O_PATH needs no permission to read the folder. Not all versions of Apple's systems have such a flag.
    #if os(Linux)
        private static let flags = rt_open_path_flag() | O_DIRECTORY | O_CLOEXEC
    #else
        private static let flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC
    #endif

    /// - parameter followingLinks: whether the last part of the path may be a symbolic link. The earlier parts always may.
    /// - throws: `SystemError`: `ENOENT`; `ENOTDIR`; `ELOOP` for a link that is not to be followed.
    package convenience init(at path: String, followingLinks: Bool = false) throws {
        try self.init(FilePlace(path), followingLinks: followingLinks)
    }

    /// Opens a folder in this one.
    ///
    /// - throws: `SystemError`: the errors of the initializer.
    package func folder(_ name: String) throws -> OpenFolder {
        try OpenFolder(FilePlace(name, in: self), followingLinks: false)
    }

    private init(_ place: FilePlace, followingLinks: Bool) throws {
        path = place.path
        do {
            descriptor = try System.perform(.open, path) {
                openat(place.folder, place.name, Self.flags | (followingLinks ? 0 : O_NOFOLLOW))
            }
        } catch let error as SystemError where error.errno == ENOTDIR && !followingLinks {
            // For a symbolic link, Linux reports ENOTDIR where the manual pages say ELOOP.
            let status = try System.status(of: place, followingLinks: false)
            if status?.isSymbolicLink == true { throw SystemError(call: .open, errno: ELOOP, path: path) }
            throw error
        }
    }

    deinit { close(descriptor) }

    package func file(_ name: String) -> String { "\(path)/\(name)" }

    /// Opens the folder again for listing, syncing or changing it, which ``flags`` do not allow.
    private func reopened() throws -> Int32 {
        try System.perform(.open, path) { openat(descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) }
    }

    // MARK: Looking

    /// The names of the folder's contents, in no order.
    package func names() throws -> [String] { try System.names(inFolder: path, descriptor: reopened()) }

    /// `lstat`; nil when there is no such file.
    package func status(ofFile name: String) throws -> stat? {
        try System.status(of: FilePlace(name, in: self), followingLinks: false)
    }

    /// All bytes of a file, unless it is part of a database (rule G5); see `System.contents(ofFileAt:limit:followingLinks:notOf:)`.
    package func contents(ofFile name: String, limit: Int, notOf database: String? = nil) throws -> [UInt8]? {
        try System.contents(of: FilePlace(name, in: self), limit: limit, followingLinks: false, notOf: database)
    }

    // MARK: Changing

    /// Creates a folder in this one, unless the name is in use.
    ///
    /// - parameter access: the folder's permissions; nil for what the umask leaves of 0755.
    /// - returns: whether the folder was created.
    package func makeFolder(_ name: String, access: FileAccess?) throws -> Bool {
        try Self.make(FilePlace(name, in: self), access)
    }

    fileprivate static func make(_ place: FilePlace, _ access: FileAccess?) throws -> Bool {
        do {
            try System.perform(.mkdir, place.path) { mkdirat(place.folder, place.name, 0o755) }
        } catch let error as SystemError where error.isAlreadyThere {
            return false
        }
        guard let access else { return true }
        // The name may refer to another folder by now. A symbolic link is refused.
        let descriptor = try OpenFolder(place, followingLinks: false).reopened()
        defer { close(descriptor) }
        var status = stat()
        try System.perform(.fstat, place.path) { fstat(descriptor, &status) }
        // S_ISGID stays set, so that new files keep getting the folder's group. Users who may read the folder may also enter it.
        let mode = status.st_mode & S_ISGID | access.mode | (access.mode & 0o444) >> 2
        try System.perform(.chmod, place.path) { fchmod(descriptor, mode) }
        if geteuid() == 0 { try System.perform(.chown, place.path) { fchown(descriptor, access.owner, access.group) } }
        return true
    }

    /// Gives this new folder the permissions of the folder above it: of each class that may write there, whatever the umask; of the other
    /// classes, what the umask has left (rule X16a). The superuser also gives the folder to the owner of the folder above.
    ///
    /// - parameter parent: the status of the folder above.
    package func share(like parent: FileStatus) throws {
        let descriptor = try reopened()
        defer { close(descriptor) }
        var status = stat()
        try System.perform(.fstat, path) { fstat(descriptor, &status) }
        // In a sticky folder, such as /tmp, users who may write there do not share what they create.
        let isShared = parent.st_mode & S_ISVTX == 0
        let isForOthers = isShared && parent.st_mode & 0o002 != 0
        var isForGroup = isShared && parent.st_mode & 0o020 != 0
        if geteuid() == 0, parent.st_uid != 0 {
            try System.perform(.chown, path) { fchown(descriptor, parent.st_uid, parent.st_gid) }
        } else if isForGroup, status.st_gid != parent.st_gid {
            do {
                try System.perform(.chown, path) { fchown(descriptor, uid_t.max, parent.st_gid) }
            } catch let error as SystemError where error.errno == EPERM {
                // This process is no member of that group. The folder's group is another one, which gets no more than usual.
                isForGroup = false
            }
        }
        let left = status.st_mode & 0o777 | (isForGroup ? 0o070 : 0) | (isForOthers ? 0o007 : 0)
        let inherited = status.st_mode & S_ISGID | (isForGroup ? S_ISGID : 0)
        let mode = parent.st_mode & left | 0o700 | inherited
        try System.perform(.chmod, path) { fchmod(descriptor, mode) }
    }

    /// Writes a new file, as `System.makeFile(at:_:access:isDurable:)` does.
    package func makeFile(_ name: String, _ bytes: [UInt8], access: FileAccess?, isDurable: Bool) throws {
        try System.makeFile(at: FilePlace(name, in: self), bytes, access: access, isDurable: isDurable)
    }

    /// Renames a file, into another folder, and replaces a file that has the new name.
    package func renameFile(_ name: String, to new: String, in other: OpenFolder) throws {
        try System.renameFile(at: FilePlace(name, in: self), to: FilePlace(new, in: other))
    }

    /// Renames a file, into another folder, to a name that must be unused. If the process dies in between, the file has both names.
    ///
    /// - throws: `EEXIST` when the name is in use.
    package func renameFile(_ name: String, toUnused new: String, in other: OpenFolder) throws {
        try System.renameFile(at: FilePlace(name, in: self), toUnused: FilePlace(new, in: other))
    }

    /// Renames a file or folder, into another folder, in one step and to a name that must be unused; see `System.move(_:toUnused:)`.
    ///
    /// - throws: `EEXIST` when the name is in use.
    package func move(_ name: String, toUnused new: String, in other: OpenFolder) throws {
        try System.move(FilePlace(name, in: self), toUnused: FilePlace(new, in: other))
    }

    /// Gives a file a second name in another folder. A symbolic link gets the second name itself.
    package func link(_ name: String, as new: String, in other: OpenFolder) throws {
        try System.perform(.link, other.file(new)) { linkat(descriptor, name, other.descriptor, new, 0) }
    }

    /// Removes a file, or a symbolic link itself.
    ///
    /// - returns: false when there was no such file.
    @discardableResult
    package func removeFile(_ name: String) throws -> Bool { try System.removeFile(at: FilePlace(name, in: self)) }

    /// Removes a file, or a folder of this user with all that is in it. No symbolic link is followed. A folder that another user owns or may
    /// write stays, because its owner decides what is in it while it is being removed.
    ///
    /// - returns: false when nothing was removed.
    package func removeAll(_ name: String) throws -> Bool { try removeAll(name, isInOwnFolder: false) }

    private func removeAll(_ name: String, isInOwnFolder: Bool) throws -> Bool {
        guard let status = try status(ofFile: name) else { return false }
        guard status.isFolder else { return try removeFile(name) }
        do {
            let folder = try folder(name)
            // What is in an own folder was put there by this user, with any mode that a program has given it.
            guard try isInOwnFolder ? folder.status().st_uid == geteuid() : folder.isOwn else { return false }
            try folder.removeContents()
            try System.perform(.unlink, file(name)) { unlinkat(descriptor, name, AT_REMOVEDIR) }
            return true
        } catch let error as SystemError where error.errno == ENOENT {
            return false
        }
    }

    /// Removes all that is in this own folder, as ``removeAll(_:)`` does.
    func removeContents() throws {
        for name in try names() { _ = try removeAll(name, isInOwnFolder: true) }
    }

    /// Removes an empty folder, and ignores failures.
    package func removeFolderIfEmpty(_ name: String) {
        _ = System.performReturningErrno(.unlink) { unlinkat(descriptor, name, AT_REMOVEDIR) == 0 ? 0 : errno }
    }

    /// Removes a file, and ignores failures. It is meant for files that do no harm when they stay.
    package func removeIfPossible(_ name: String) { System.removeIfPossible(FilePlace(name, in: self)) }

    /// Gives the folder, and all that is in it, to a user and a group. No symbolic link is followed, and a file that has another name
    /// elsewhere is left as it is: whoever may write the folder can put such names there. Failures are ignored.
    package func give(to owner: uid_t, _ group: gid_t) {
        guard let own = try? reopened() else { return }
        defer { close(own) }
        _ = System.performReturningErrno(.chown) { fchown(own, owner, group) == 0 ? 0 : errno }
        for name in (try? names()) ?? [] {
            guard let status = try? status(ofFile: name) else { continue }
            if status.isFolder {
                (try? folder(name))?.give(to: owner, group)
            } else if status.isRegularFile {
                giveFile(name, to: owner, group)
            }
        }
    }

    private func giveFile(_ name: String, to owner: uid_t, _ group: gid_t) {
        let path = file(name)
        // O_NONBLOCK: the name may be that of a pipe by now.
        let flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK
        let opened = try? System.perform(.open, path) { openat(descriptor, name, flags) }
        guard let opened else { return }
        defer { close(opened) }
        var status = stat()
        guard (try? System.perform(.fstat, path) { fstat(opened, &status) }) != nil, status.isRegularFile,
            status.st_nlink == 1
        else { return }
        _ = System.performReturningErrno(.chown) { fchown(opened, owner, group) == 0 ? 0 : errno }
    }

    /// Opens the file of a lock in this folder, and creates it if it is absent. A symbolic link is not followed.
    ///
    /// - returns: a descriptor, which the caller closes.
    package func openLock(_ name: String) throws -> Int32 {
        try System.perform(.open, file(name)) {
            openat(descriptor, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0o666)
        }
    }

    /// Waits until the names in the folder are on the disk.
    package func sync() throws {
        let descriptor = try reopened()
        defer { close(descriptor) }
        try System.sync(descriptor, path)
    }
}

extension System {
    /// Creates a folder, as `OpenFolder.makeFolder(_:access:)` does.
    @discardableResult
    package static func makeFolder(at path: String, access: FileAccess? = nil) throws -> Bool {
        try OpenFolder.make(FilePlace(path), access)
    }
}

extension OpenFolder {
    /// Opens the folder at `path`; nil when there is no such folder.
    package static func ifThere(at path: String, followingLinks: Bool = false) throws -> OpenFolder? {
        try ifThere { try OpenFolder(at: path, followingLinks: followingLinks) }
    }

    /// Returns the folder that `open` opens; nil when it does not exist.
    package static func ifThere(_ open: () throws -> OpenFolder) throws -> OpenFolder? {
        do {
            return try open()
        } catch let error as SystemError where error.isFolderGone {
            return nil
        }
    }
}
