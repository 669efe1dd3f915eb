#if canImport(Darwin)
    import Darwin
#else
    import CRoundtableShims
    import Glibc
#endif

/// Where a file is: a path, or a name in a folder that is held open (openat(2)).
struct FilePlace {
    let folder: Int32
    let name: String
    /// For errors.
    let path: String

    init(_ path: String) { (folder, name, self.path) = (AT_FDCWD, path, path) }

    fileprivate init(_ name: String, in folder: OpenFolder) {
        (self.folder, self.name, path) = (folder.descriptor, name, folder.file(name))
    }
}

/// A folder that is held open. Its files are reached by their names in it, so that a symbolic link that takes the place of the folder meanwhile
/// leads nowhere. Links in the folder itself are not followed either.
///
/// The path is for errors only, and for the folder's children: it may lead elsewhere by now.
package final class OpenFolder: Sendable {
    package let path: String
    fileprivate let descriptor: Int32

    // O_PATH asks for no permission to read the folder. Apple's systems have no such flag in all versions.
    #if os(Linux)
        private static let flags = rt_open_path_flag() | O_DIRECTORY | O_CLOEXEC
    #else
        private static let flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC
    #endif

    /// - parameter followingLinks: whether the last part of the path may be a symbolic link. Those before it may.
    /// - throws: `SystemError`: `ENOENT`; `ENOTDIR`; `ELOOP` for a link that is not to be followed.
    package convenience init(at path: String, followingLinks: Bool = false) throws {
        try self.init(FilePlace(path), followingLinks: followingLinks)
    }

    /// A folder in this one.
    ///
    /// - throws: `SystemError`, as the initializer.
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
            // What the manual pages call ELOOP, Linux calls ENOTDIR.
            let status = try System.status(of: place, followingLinks: false)
            if status?.isSymbolicLink == true { throw SystemError(call: .open, errno: ELOOP, path: path) }
            throw error
        }
    }

    deinit { close(descriptor) }

    package func file(_ name: String) -> String { "\(path)/\(name)" }

    /// To be listed, synced or changed, which ``flags`` do not allow.
    private func reopened() throws -> Int32 {
        try System.perform(.open, path) { openat(descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) }
    }

    // MARK: Looking

    /// In no order.
    package func names() throws -> [String] { try System.names(inFolder: path, descriptor: reopened()) }

    /// `lstat`; nil when there is no such file.
    package func status(ofFile name: String) throws -> stat? {
        try System.status(of: FilePlace(name, in: self), followingLinks: false)
    }

    /// All bytes of a file, which is none of a database (rule G5), as `System.contents(ofFileAt:limit:followingLinks:notOf:)` reads them.
    package func contents(ofFile name: String, limit: Int, notOf database: String? = nil) throws -> [UInt8]? {
        try System.contents(of: FilePlace(name, in: self), limit: limit, followingLinks: false, notOf: database)
    }

    // MARK: Changing

    /// Makes a folder in this one, unless something has that name.
    ///
    /// - parameter access: who may use it; nil for what the umask leaves of 0755.
    /// - returns: whether it was made.
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
        // What has the name now may be another folder, but no link.
        let descriptor = try OpenFolder(place, followingLinks: false).reopened()
        defer { close(descriptor) }
        var status = stat()
        try System.perform(.fstat, place.path) { fstat(descriptor, &status) }
        // Where files get the group of the folder that they are in, this goes on below. Who may read or write the file, may also enter.
        let mode = status.st_mode & S_ISGID | access.mode | (access.mode & 0o444) >> 2
        try System.perform(.chmod, place.path) { fchmod(descriptor, mode) }
        if geteuid() == 0 { try System.perform(.chown, place.path) { fchown(descriptor, access.owner, access.group) } }
        return true
    }

    /// Makes this folder somebody else's. Only for the superuser.
    package func giveAway(owner: uid_t, group: gid_t) throws {
        let descriptor = try reopened()
        defer { close(descriptor) }
        try System.perform(.chown, path) { fchown(descriptor, owner, group) }
    }

    /// Writes a new file, as `System.makeFile(at:_:access:isDurable:)` does.
    package func makeFile(_ name: String, _ bytes: [UInt8], access: FileAccess?, isDurable: Bool) throws {
        try System.makeFile(at: FilePlace(name, in: self), bytes, access: access, isDurable: isDurable)
    }

    /// Gives a file another name, in another folder, in place of what has that name.
    package func renameFile(_ name: String, to new: String, in other: OpenFolder) throws {
        try System.renameFile(at: FilePlace(name, in: self), to: FilePlace(new, in: other))
    }

    /// Gives a file another name, in another folder, which nothing may have yet. When the process dies in between, it has both.
    ///
    /// - throws: `EEXIST` when something has that name.
    package func renameFile(_ name: String, toUnused new: String, in other: OpenFolder) throws {
        try System.renameFile(at: FilePlace(name, in: self), toUnused: FilePlace(new, in: other))
    }

    /// Removes a file, or a symbolic link itself.
    ///
    /// - returns: false when there was no such file.
    @discardableResult
    package func removeFile(_ name: String) throws -> Bool { try System.removeFile(at: FilePlace(name, in: self)) }

    /// Removes a file, or a folder with all that is in it. No symbolic link is followed.
    ///
    /// - returns: false when there was nothing of that name.
    package func removeAll(_ name: String) throws -> Bool {
        guard let status = try status(ofFile: name) else { return false }
        guard status.isFolder else { return try removeFile(name) }
        do {
            let folder = try folder(name)
            for name in try folder.names() { _ = try folder.removeAll(name) }
            try System.perform(.unlink, file(name)) { unlinkat(descriptor, name, AT_REMOVEDIR) }
            return true
        } catch let error as SystemError where error.errno == ENOENT {
            return false
        }
    }

    /// For what is in nobody's way when it stays.
    package func removeIfPossible(_ name: String) { System.removeIfPossible(FilePlace(name, in: self)) }

    /// Waits until the names in the folder are on the disk.
    package func sync() throws {
        let descriptor = try reopened()
        defer { close(descriptor) }
        try System.sync(descriptor, path)
    }
}

extension System {
    /// Makes a folder, as `OpenFolder.makeFolder(_:access:)` does.
    @discardableResult
    package static func makeFolder(at path: String, access: FileAccess? = nil) throws -> Bool {
        try OpenFolder.make(FilePlace(path), access)
    }
}

extension OpenFolder {
    /// nil when there is no such folder.
    package static func ifThere(at path: String, followingLinks: Bool = false) throws -> OpenFolder? {
        try ifThere { try OpenFolder(at: path, followingLinks: followingLinks) }
    }

    /// nil when what `open` opens is not there.
    package static func ifThere(_ open: () throws -> OpenFolder) throws -> OpenFolder? {
        do {
            return try open()
        } catch let error as SystemError where error.isFolderGone {
            return nil
        }
    }
}
