#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Files that are written completely before they get their name, and are never changed. A process that opens one finds all of its
/// contents. Nothing here takes a lock.
extension System {
    /// Writes a new file with these bytes.
    ///
    /// - Parameters:
    ///   - access: the file's permissions; nil for what the umask leaves of 0644.
    ///   - isDurable: whether the bytes are on the disk on return. (The name is not, until its folder is synced.)
    /// - throws: `SystemError`, after removing the file if possible.
    package static func makeFile(
        at path: String,
        _ bytes: [UInt8],
        access: FileAccess? = nil,
        isDurable: Bool
    ) throws {
        try makeFile(at: FilePlace(path), bytes, access: access, isDurable: isDurable)
    }

    static func makeFile(at place: FilePlace, _ bytes: [UInt8], access: FileAccess?, isDurable: Bool) throws {
        let path = place.path
        // Until the file has its permissions, no other user may open it, because a descriptor keeps what it was opened with.
        let flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW
        let descriptor = try perform(.open, path) {
            access == nil
                ? openat(place.folder, place.name, flags, 0o644)
                : openat(place.folder, place.name, flags, 0o600)
        }
        do {
            defer { close(descriptor) }
            if let access {
                try perform(.chmod, path) { fchmod(descriptor, access.mode) }
                // SQLite does the same for its companion files. Otherwise, files that root creates would lock the owner out.
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
            removeIfPossible(place)
            throw error
        }
    }

    /// Renames a file, and replaces a file that has the new name.
    static func renameFile(at place: FilePlace, to new: FilePlace) throws {
        try perform(.rename, place.path) { renameat(place.folder, place.name, new.folder, new.name) }
    }

    /// Renames a file to a name that must be unused. If the process dies in between, the file has both names.
    ///
    /// - throws: `EEXIST` when the name is in use.
    static func renameFile(at place: FilePlace, toUnused new: FilePlace) throws {
        try perform(.link, new.path) { linkat(place.folder, place.name, new.folder, new.name, 0) }
        removeIfPossible(place)
    }

    /// Creates a file with these bytes at `path`, completely or not at all (rule B1). Until then, it is an unfinished file in the same
    /// folder, which is opened once. This function also removes the unfinished files of dead processes there.
    ///
    /// - Parameters:
    ///   - access: returns the file's permissions in that folder; nil for what the umask leaves of 0644.
    ///   - prefix: the prefix of the unfinished files' names.
    ///   - prepare: is called with the path of the unfinished file, before that gets its name.
    /// - returns: false when `path` is in use already.
    static func createWhole(
        _ bytes: [UInt8],
        at path: String,
        access: (OpenFolder) throws -> FileAccess?,
        unfinished prefix: String,
        prepare: (String) throws -> Void = { _ in }
    ) throws -> Bool {
        let (path, name) = place(of: path)
        let folder = try OpenFolder(at: path, followingLinks: true)
        let temporary = UnfinishedFile.name(prefix)
        defer { _ = try? UnfinishedFile.removeAbandoned(in: folder, prefix) }
        try folder.makeFile(temporary, bytes, access: access(folder), isDurable: false)
        do {
            try prepare(folder.file(temporary))
            try folder.renameFile(temporary, toUnused: name, in: folder)
            return true
        } catch let error as SystemError {
            folder.removeIfPossible(temporary)
            if error.isAlreadyThere { return false }
            throw error
        }
    }

    /// Waits until the contents of a file are on the disk. This opens the file, so it must not be one that SQLite locks (rule G5).
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

    static func sync(_ descriptor: Int32, _ path: String) throws {
        #if canImport(Darwin)
            // fsync(2) of Darwin leaves the bytes in the drive's cache. Not all file systems support F_FULLFSYNC.
            do {
                try perform(.fsync, path) { fcntl(descriptor, F_FULLFSYNC) }
                return
            } catch let error as SystemError where [ENOTSUP, EINVAL, ENOTTY].contains(error.errno) {}
        #endif
        try perform(.fsync, path) { fsync(descriptor) }
    }

    /// All bytes of a file, unless it is part of a database (rule G5).
    ///
    /// - Parameters:
    ///   - limit: the number of bytes to read at most. One more byte is returned when the file is longer.
    ///   - followingLinks: whether symbolic links are followed. If not, a symbolic link is not a regular file.
    ///   - database: a database that may be open in this process without being registered.
    ///   - isAccepted: gets the status of the open file before it is read, and says whether it is read.
    /// - returns: nil when there is no such file, or it is not accepted.
    /// - throws: `SystemError`, with `isMissingFile` when it is not a regular file; `LockedFileError` when it is part of a database.
    package static func contents(
        ofFileAt path: String,
        limit: Int,
        followingLinks: Bool = true,
        notOf database: String? = nil,
        isAccepted: (FileStatus) throws -> Bool = { _ in true }
    ) throws -> [UInt8]? {
        let place = FilePlace(path)
        return try contents(
            of: place,
            limit: limit,
            followingLinks: followingLinks,
            notOf: database,
            isAccepted: isAccepted
        )
    }

    static func contents(
        of place: FilePlace,
        limit: Int,
        followingLinks: Bool,
        notOf database: String?,
        isAccepted: (FileStatus) throws -> Bool = { _ in true }
    ) throws -> [UInt8]? {
        let path = place.path
        let (descriptor, status): (Int32, stat)
        do {
            (descriptor, status) = try openFile(
                at: place,
                O_RDONLY,
                followingLinks: followingLinks,
                notOf: database,
                .all
            )
        } catch let error as SystemError where error.call == .open && error.isFolderGone {
            return nil
        }
        defer { close(descriptor) }
        guard try isAccepted(status) else { return nil }
        // The buffer is one byte larger than the file, so that a shorter result shows the end without another call.
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

    /// The names of a folder's contents, in no order; nil when there is no such folder.
    package static func names(inFolder path: String) throws -> [String]? {
        do {
            return try names(inFolder: path, descriptor: nil)
        } catch let error as SystemError where error.errno == ENOENT || error.errno == ENOTDIR {
            return nil
        }
    }

    /// The names of a folder's contents, in no order.
    ///
    /// - parameter descriptor: a descriptor of the folder at its beginning, which this function closes; nil to open `path`.
    static func names(inFolder path: String, descriptor: Int32?) throws -> [String] {
        var isOpen = descriptor != nil
        defer { if isOpen, let descriptor { close(descriptor) } }
        let stream = try performReturningPointer(.opendir, path) { descriptor.map { fdopendir($0) } ?? opendir(path) }
        guard let stream else { return [] }
        isOpen = false
        defer { closedir(stream) }
        var names: [String] = []
        while true {
            errno = 0
            guard let entry = readdir(stream) else {
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

    /// Removes a file, or a symbolic link itself.
    ///
    /// - returns: false when there was no such file.
    @discardableResult
    package static func removeFile(at path: String) throws -> Bool { try removeFile(at: FilePlace(path)) }

    static func removeFile(at place: FilePlace) throws -> Bool {
        do {
            try perform(.unlink, place.path) { unlinkat(place.folder, place.name, 0) }
            return true
        } catch let error as SystemError where error.errno == ENOENT {
            return false
        }
    }

    /// Removes a file if it still has this identity, and has not been replaced.
    static func removeFile(at path: String, ifStill identity: FileIdentity) throws {
        if try statusOfLink(at: path).map(FileIdentity.init) == identity { try removeFile(at: path) }
    }

    /// Removes a file, and ignores failures. It is meant for files that do no harm and are removed later (rule V3).
    package static func removeIfPossible(_ path: String) { removeIfPossible(FilePlace(path)) }

    static func removeIfPossible(_ place: FilePlace) {
        _ = performReturningErrno(.unlink) { unlinkat(place.folder, place.name, 0) == 0 ? 0 : errno }
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
