#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Opens files by names that may be links to files of a database (rule G5).
extension System {
    /// Opens a regular file, unless it is one of a database. The caller closes the descriptor.
    ///
    /// - Parameters:
    ///   - mode: `O_RDONLY` or `O_RDWR`.
    ///   - followingLinks: whether symbolic links are followed. If not, a symbolic link is not a regular file.
    ///   - database: a database that may be open in this process without being registered.
    ///   - parts: the files of databases that are not opened.
    /// - throws: `SystemError` of `open`, with `isFolderGone`, when there is no such file. `SystemError` of `read`, with `isMissingFile`, when
    ///   the file is not a regular file. `LockedFileError` when it is part of a database.
    static func openFile(
        at place: FilePlace,
        _ mode: Int32,
        followingLinks: Bool,
        notOf database: String?,
        _ parts: LockedFiles.Parts
    ) throws -> (descriptor: Int32, status: stat) {
        let path = place.path
        while true {
            guard let seen = try status(of: place, followingLinks: followingLinks) else {
                throw SystemError(call: .open, errno: ENOENT, path: path)
            }
            try checkIsFile(seen, path)
            switch try LockedFiles.look(at: place, foundAs: FileIdentity(seen), orOf: database, parts) {
            case .unclaimed: break
            case .part(let locked): throw LockedFileError(path: path, database: locked)
            case .replaced: continue
            }
            let descriptor: Int32
            do {
                // O_NONBLOCK: opening does not block, even if the name refers to a pipe by now.
                descriptor = try perform(.open, path) {
                    let flags = mode | O_CLOEXEC | O_NONBLOCK | (followingLinks ? 0 : O_NOFOLLOW)
                    return openat(place.folder, place.name, flags)
                }
            } catch let error as SystemError where error.errno == ELOOP && !followingLinks {
                throw SystemError(call: .read, errno: EINVAL, path: path)
            }
            var mayClose = true
            do {
                var status = stat()
                try perform(.fstat, path) { fstat(descriptor, &status) }
                let identity = FileIdentity(status)
                if identity != FileIdentity(seen),
                    let database = try LockedFiles.database(of: identity, orOf: database, parts)
                {
                    // The file replaced the one that was inspected. Leaving its descriptor open is the lesser harm.
                    mayClose = false
                    throw LockedFileError(path: path, database: database)
                }
                try checkIsFile(status, path)
                return (descriptor, status)
            } catch {
                if mayClose { close(descriptor) }
                throw error
            }
        }
    }

    private static func checkIsFile(_ status: stat, _ path: String) throws {
        if status.isRegularFile { return }
        throw SystemError(call: .read, errno: status.isFolder ? EISDIR : EINVAL, path: path)
    }
}
