#if canImport(Darwin)
    import Darwin
#else
    import CRoundtableShims
    import Glibc
#endif

/// The permissions and the owner of a file.
package struct FileAccess: Sendable {
    package let mode: mode_t
    package let owner: uid_t
    package let group: gid_t

    /// The access of a file that this process owns.
    init(mode: mode_t) {
        (self.mode, owner, group) = (mode, geteuid(), getegid())
    }

    package init(_ status: stat) {
        mode = status.st_mode & 0o666
        owner = status.st_uid
        group = status.st_gid
    }
}

/// The result of `stat` or `lstat`.
package typealias FileStatus = stat

extension stat {
    /// Owner, group and mode, as `owner 1000, group 100 and mode 660`.
    package var accessText: String {
        "owner \(st_uid), group \(st_gid) and mode \(String(UInt32(st_mode & 0o7777), radix: 8))"
    }

    package var isRegularFile: Bool { st_mode & S_IFMT == S_IFREG }
    package var isFolder: Bool { st_mode & S_IFMT == S_IFDIR }
    /// Whether the file is a symbolic link. Only `lstat` reports links.
    package var isSymbolicLink: Bool { st_mode & S_IFMT == S_IFLNK }

    /// The modification time, in ns since 1970.
    package var modificationTime: Int64 {
        #if canImport(Darwin)
            let time = st_mtimespec
        #else
            let time = st_mtim
        #endif
        return Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec)
    }
}

extension System {
    /// The identity of the file at `path`, or nil when there is none. The file is not opened.
    package static func identity(ofFileAt path: String) throws -> FileIdentity? {
        try status(ofFileAt: path).map(FileIdentity.init)
    }

    /// The file at this very name, or nil when there is none. Links are not followed, and the file is not opened.
    static func namedFile(at path: String) throws -> NamedFile? {
        #if canImport(Darwin)
            guard let status = try statusOfLink(at: path) else { return nil }
            // The birth time follows when a program sets an earlier modification date.
            return NamedFile(identity: FileIdentity(status), birth: 0)
        #else
            var file = rt_named_file()
            do {
                try perform(.stat, path) { rt_named_file(path, &file) }
            } catch let error as SystemError where error.errno == ENOENT || error.errno == ENOTDIR {
                return nil
            }
            return NamedFile(identity: FileIdentity(device: file.device, inode: file.inode), birth: file.birth)
        #endif
    }

    /// The bytes of a block of the file system that holds `path`: it allocates no less for a part of a file.
    package static func blockSize(ofFileSystemHolding path: String) throws -> Int {
        var info = statvfs()
        try perform(.statfs, path) { statvfs(path, &info) }
        return Int(clamping: info.f_frsize)
    }

    /// The group that a file gets which this process creates in a folder.
    package static func groupOfNewFiles(in folder: String) throws -> gid_t {
        guard let status = try status(ofFileAt: folder) else { return getegid() }
        #if canImport(Darwin)
            return status.st_gid
        #else
            return status.st_mode & S_ISGID != 0 ? status.st_gid : getegid()
        #endif
    }

    /// The result of `stat`, or nil when there is no such file, or only a symbolic link that leads nowhere. The file is not opened.
    package static func status(ofFileAt path: String) throws -> stat? {
        try status(of: FilePlace(path), followingLinks: true)
    }

    /// The result of `lstat`, which does not follow a symbolic link, or nil when there is no such file.
    package static func statusOfLink(at path: String) throws -> stat? {
        try status(of: FilePlace(path), followingLinks: false)
    }

    /// The result of `fstat`.
    ///
    /// - parameter path: of the file, for errors.
    package static func status(ofDescriptor descriptor: Int32, _ path: String) throws -> FileStatus {
        var status = stat()
        try perform(.fstat, path) { fstat(descriptor, &status) }
        return status
    }

    /// Changes the permissions of an open file with `fchmod`.
    ///
    /// - parameter path: of the file, for errors.
    package static func setMode(_ mode: mode_t, ofDescriptor descriptor: Int32, _ path: String) throws {
        try perform(.chmod, path) { fchmod(descriptor, mode) }
    }

    static func status(of place: FilePlace, followingLinks: Bool) throws -> stat? {
        var status = stat()
        do {
            try perform(.stat, place.path) {
                fstatat(place.folder, place.name, &status, followingLinks ? 0 : AT_SYMLINK_NOFOLLOW)
            }
            return status
        } catch let error as SystemError where error.errno == ENOENT || error.errno == ENOTDIR {
            return nil
        } catch let error as SystemError where error.errno == ELOOP && followingLinks {
            // The links of the path form a circle. If the last part of the path is such a link, the result is nil; otherwise, the error is
            // thrown.
            guard try self.status(of: place, followingLinks: false) != nil else { throw error }
            return nil
        }
    }

    /// The folder that a file is in, and its name there.
    package static func place(of path: String) -> (folder: String, name: String) {
        guard let slash = path.lastIndex(of: "/") else { return (".", path) }
        let folder = slash == path.startIndex ? "/" : String(path[..<slash])
        return (folder, String(path[path.index(after: slash)...]))
    }

    /// The path with symbolic links resolved; nil when there is no file.
    package static func target(ofPath path: String) -> String? {
        guard let target = realpath(path, nil) else { return nil }
        defer { free(target) }
        // A repaired name would be that of another file.
        return String(validatingCString: target)
    }

    /// Whether this process may write the file, or create files in the folder. The result is advice, because SQLite decides.
    package static func mayWrite(_ path: String) -> Bool { access(path, W_OK) == 0 }

    /// The errno with which the system refuses to let this process write the file, such as `EACCES` or `EROFS`; nil when it may.
    package static func refusal(ofWriting path: String) -> Int32? { access(path, W_OK) == 0 ? nil : errno }

    /// Whether this process may read the file, and write it too.
    package static func mayUse(_ path: String, writing: Bool) -> Bool {
        access(path, writing ? R_OK | W_OK : R_OK) == 0
    }

    /// Whether this process may read the file.
    package static func mayRead(_ path: String) -> Bool { refusal(ofReading: path) == nil }

    /// The errno with which the system refuses to let this process read the file; nil when it may.
    package static func refusal(ofReading path: String) -> Int32? { access(path, R_OK) == 0 ? nil : errno }

    /// The folders above the given absolute paths, from the top down. The root is left out, because it is never moved.
    ///
    /// - parameter inContainers: whether the folders above an app's container are left out, too (``AppContainer``).
    static func foldersAbove(_ paths: [String], inContainers: Bool = false) -> [String] {
        var folders: Set<String> = []
        for path in paths where path.hasPrefix("/") {
            let names = path.split(separator: "/")
            let first = inContainers ? (AppContainer.depth(names) ?? 1) - 1 : 0
            for count in names.indices.dropLast() where count >= first {
                folders.insert("/" + names[...count].joined(separator: "/"))
            }
        }
        return folders.sorted { $0.utf8.count < $1.utf8.count }
    }
}
