#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Files that are written in one go, then get their name, and are never changed: whoever opens one finds all of it, or none.
/// Nothing here takes a lock.
extension System {
    /// Writes a new file with these bytes.
    ///
    /// - Parameters:
    ///   - isDurable: the bytes are on the disk on return. (The name is not, until its folder is synced.)
    ///   - access: nil for what the umask leaves of 0644.
    /// - throws: no file is left behind then, as far as it can be removed.
    package static func makeFile(
        at path: String,
        _ bytes: [UInt8],
        access: FileAccess? = nil,
        isDurable: Bool
    ) throws {
        let descriptor = try perform(.open, path) {
            open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o644)
        }
        do {
            defer { close(descriptor) }
            if let access {
                try perform(.chmod, path) { fchmod(descriptor, access.mode) }
                // As SQLite does for its own companion files: else root would lock the owner out.
                if geteuid() == 0 { try perform(.chown, path) { fchown(descriptor, access.owner, access.group) } }
            }
            var written = 0
            while written < bytes.count {
                written += try perform(.write, path) {
                    bytes.withUnsafeBytes { write(descriptor, $0.baseAddress! + written, bytes.count - written) }
                }
            }
            if isDurable { try sync(descriptor, path) }
        } catch {
            removeIfPossible(path)
            throw error
        }
    }

    /// Gives a file another name, in place of what has that name.
    package static func renameFile(at path: String, to newPath: String) throws {
        try perform(.rename, path) { rename(path, newPath) }
    }

    /// Gives a file another name, which nothing may have yet. When the process dies in between, it has both.
    ///
    /// - throws: `EEXIST` when something has that name.
    package static func renameFile(at path: String, toUnused newPath: String) throws {
        try perform(.link, newPath) { link(path, newPath) }
        removeIfPossible(path)
    }

    /// Puts a file with these bytes at `path`, whole or not at all (rule B1). Its name is `path-suffix` until then; one that cannot be removed
    /// harms nobody, since it is never opened again.
    ///
    /// - returns: false when something is there already.
    static func createWhole(_ bytes: [UInt8], at path: String, access: FileAccess?, suffix: String) throws -> Bool {
        let temporary = "\(path)-\(suffix)"
        try makeFile(at: temporary, bytes, access: access, isDurable: false)
        do {
            try renameFile(at: temporary, toUnused: path)
            return true
        } catch let error as SystemError {
            removeIfPossible(temporary)
            if error.isAlreadyThere { return false }
            throw error
        }
    }

    /// Waits until the names in a folder are on the disk.
    package static func syncFolder(at path: String) throws {
        let descriptor = try perform(.open, path) { open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) }
        defer { close(descriptor) }
        try sync(descriptor, path)
    }

    /// Waits until what was written to a file is on the disk. Opens it: not for files that SQLite locks (rule G5).
    ///
    /// - returns: false when there is no such file.
    @discardableResult
    package static func syncFile(at path: String) throws -> Bool {
        let descriptor: Int32
        do {
            descriptor = try perform(.open, path) { open(path, O_RDONLY | O_CLOEXEC) }
        } catch let error as SystemError where error.errno == ENOENT {
            return false
        }
        defer { close(descriptor) }
        try sync(descriptor, path)
        return true
    }

    private static func sync(_ descriptor: Int32, _ path: String) throws {
        #if canImport(Darwin)
            // fsync(2) of Darwin leaves the bytes in the drive's cache. Not all file systems know better.
            do {
                try perform(.fsync, path) { fcntl(descriptor, F_FULLFSYNC) }
                return
            } catch let error as SystemError where [ENOTSUP, EINVAL, ENOTTY].contains(error.errno) {}
        #endif
        try perform(.fsync, path) { fsync(descriptor) }
    }

    /// All bytes of a file, which is none of a database (rule G5).
    ///
    /// - Parameters:
    ///   - limit: no more than so many, and one that tells that there are more.
    ///   - followingLinks: else a symbolic link is no file.
    ///   - database: one that may be open here without being registered.
    /// - returns: nil when there is no such file.
    /// - throws: `SystemError`, with `isNoFile` for what is none; `LockedFileError`.
    package static func contents(
        ofFileAt path: String,
        limit: Int,
        followingLinks: Bool = true,
        notOf database: String? = nil
    ) throws -> [UInt8]? {
        guard let seen = followingLinks ? try status(ofFileAt: path) : try statusOfLink(at: path) else { return nil }
        try checkIsFile(seen, path)
        switch try LockedFiles.look(at: path, foundAs: FileIdentity(seen), orOf: database) {
        case .nobodys: break
        case .part(let locked): throw LockedFileError(path: path, database: locked)
        case .replaced:
            return try contents(ofFileAt: path, limit: limit, followingLinks: followingLinks, notOf: database)
        }
        let descriptor: Int32
        do {
            // Whatever has that name by now, opening it does not wait.
            descriptor = try perform(.open, path) {
                open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (followingLinks ? 0 : O_NOFOLLOW))
            }
        } catch let error as SystemError where error.errno == ENOENT || error.errno == ENOTDIR {
            return nil
        } catch let error as SystemError where error.errno == ELOOP && !followingLinks {
            throw SystemError(call: .read, errno: EINVAL, path: path)
        }
        var mayClose = true
        defer { if mayClose { close(descriptor) } }
        var status = stat()
        try perform(.fstat, path) { fstat(descriptor, &status) }
        try checkIsFile(status, path)
        let identity = FileIdentity(status)
        if identity != FileIdentity(seen), let database = try LockedFiles.database(of: identity, orOf: database) {
            // It was put there meanwhile. A descriptor that stays open is the lesser harm.
            mayClose = false
            throw LockedFileError(path: path, database: database)
        }
        // One more than there are, to see the end in one call.
        let size = min(Int(clamping: status.st_size), limit) + 1
        var bytes = [UInt8](repeating: 0, count: size)
        var count = 0
        while count < bytes.count {
            let got = try perform(.read, path) {
                bytes.withUnsafeMutableBytes { read(descriptor, $0.baseAddress! + count, $0.count - count) }
            }
            if got == 0 { break }
            count += got
        }
        bytes.removeLast(bytes.count - count)
        return bytes
    }

    private static func checkIsFile(_ status: stat, _ path: String) throws {
        if status.isRegularFile { return }
        throw SystemError(call: .read, errno: status.isFolder ? EISDIR : EINVAL, path: path)
    }

    /// The names of what is in a folder, in no order; nil when there is no such folder.
    package static func names(inFolder path: String) throws -> [String]? {
        do {
            return try performReturningPointer(.opendir, path) { opendir(path) }.map { folder in
                defer { closedir(folder) }
                var names: [String] = []
                while true {
                    errno = 0
                    guard let entry = readdir(folder) else {
                        let code = errno
                        if code != 0 { throw SystemError(call: .opendir, errno: code, path: path) }
                        return names
                    }
                    let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                        pointer.withMemoryRebound(to: CChar.self, capacity: Int(NAME_MAX) + 1) { String(cString: $0) }
                    }
                    if name != ".", name != ".." { names.append(name) }
                }
            }
        } catch let error as SystemError where error.errno == ENOENT || error.errno == ENOTDIR {
            return nil
        }
    }

    /// Makes a folder, unless there is one.
    ///
    /// - returns: whether it was made.
    @discardableResult
    package static func makeFolder(at path: String, access: FileAccess? = nil) throws -> Bool {
        do {
            try perform(.mkdir, path) { mkdir(path, 0o755) }
        } catch let error as SystemError where error.errno == EEXIST {
            return false
        }
        guard let access else { return true }
        // Where files get the group of the folder that they are in, this goes on below.
        let givesItsGroup = try status(ofFileAt: path).map { $0.st_mode & S_ISGID } ?? 0
        // Who may read or write the file, may also enter.
        try perform(.chmod, path) { chmod(path, givesItsGroup | access.mode | (access.mode & 0o444) >> 2) }
        if geteuid() == 0 { try perform(.chown, path) { chown(path, access.owner, access.group) } }
        return true
    }

    /// Makes a file or folder somebody else's. Only for the superuser.
    package static func giveAway(_ path: String, owner: uid_t, group: gid_t) throws {
        try perform(.chown, path) { chown(path, owner, group) }
    }

    /// - returns: false when there was no such file.
    @discardableResult
    package static func removeFile(at path: String) throws -> Bool {
        do {
            try perform(.unlink, path) { unlink(path) }
            return true
        } catch let error as SystemError where error.errno == ENOENT {
            return false
        }
    }

    /// The same, if the file is still that one, and not another that was put in its place.
    static func removeFile(at path: String, ifStill identity: FileIdentity) throws {
        if try Self.identity(ofFileAt: path) == identity { try removeFile(at: path) }
    }

    /// For what is in nobody's way when it stays: it is removed later (rule V3).
    package static func removeIfPossible(_ path: String) {
        _ = performReturningErrno(.unlink) { unlink(path) == 0 ? 0 : errno }
    }

    private static func performReturningPointer<Pointee>(
        _ call: SystemCall,
        _ path: String,
        _ body: () -> Pointee?
    ) throws -> Pointee? {
        var pointer: Pointee?
        try perform(call, path) {
            pointer = body()
            return pointer == nil ? -1 : 0
        }
        return pointer
    }
}
