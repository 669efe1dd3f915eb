#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

// A folder gets its permissions and its owner before it gets its name, and by its descriptor: a name may lead to another folder at any time.

extension OpenFolder {
    /// Creates a folder in this one, unless the name is in use.
    ///
    /// - parameter access: the folder's permissions; nil for what the umask leaves of 0755.
    /// - returns: whether the folder was created.
    package func makeFolder(_ name: String, access: FileAccess?) throws -> Bool {
        guard let access else { return try System.makeFolder(FilePlace(name, in: self)) }
        return try makeFolder(name, mode: 0o700) { folder in
            let descriptor = try folder.reopened()
            defer { close(descriptor) }
            let status = try System.status(ofDescriptor: descriptor, folder.path)
            // S_ISGID stays set, so that new files keep getting the folder's group. Users who may read the folder may also enter it.
            let mode = status.st_mode & S_ISGID | access.mode | (access.mode & 0o444) >> 2
            try System.setMode(mode, ofDescriptor: descriptor, folder.path)
            if geteuid() == 0 {
                try System.perform(.chown, folder.path) { fchown(descriptor, access.owner, access.group) }
            }
        }
    }

    /// Creates a folder in this one, unless the name is in use, with the permissions of the folder above it: of each class that may write
    /// there, whatever the umask; of the other classes, what the umask has left (rule X16). The superuser also gives the folder to the owner
    /// of the folder above.
    ///
    /// - parameter parent: the status of the folder above.
    /// - returns: whether the folder was created.
    package func makeFolder(_ name: String, like parent: FileStatus) throws -> Bool {
        try makeFolder(name, mode: 0o755) { try $0.share(like: parent) }
    }

    private static let unfinished = ".roundtable-folder"

    /// - Parameters:
    ///   - mode: of the folder while it is unfinished: nobody else may write it.
    ///   - finish: gives the folder its permissions.
    private func makeFolder(_ name: String, mode: mode_t, finish: (OpenFolder) throws -> Void) throws -> Bool {
        guard try status(ofFile: name) == nil else { return false }
        defer { try? StagingFolder.removeAbandoned(in: self, Self.unfinished) }
        let unfinished = UnfinishedFile.name(Self.unfinished)
        let folder = try makeNewFolder(unfinished, mode: mode, shownAs: name)
        do {
            try finish(folder)
            try move(unfinished, toUnused: name, in: self)
            return true
        } catch {
            removeFolderIfEmpty(unfinished)
            // ENOTEMPTY and ENOTDIR: where a rename cannot refuse to replace.
            if let error = error as? SystemError, error.call == .rename,
                [EEXIST, ENOTEMPTY, ENOTDIR].contains(error.errno)
            {
                return false
            }
            throw error
        }
    }

    /// Creates a folder, and opens it. The name must be unused.
    ///
    /// - Parameters:
    ///   - mode: must not let others write.
    ///   - shown: the name for error messages.
    /// - throws: `SystemError`; ``ReplacedFileError`` if the name is that of another folder by now: of another user, or an older one of this
    ///   user. A new, empty folder of this user cannot be told from that one, and has nothing in it either.
    func makeNewFolder(_ name: String, mode: mode_t, shownAs shown: String? = nil) throws -> OpenFolder {
        let place = FilePlace(name, in: self, shownAs: shown)
        try System.perform(.mkdir, place.path) { mkdirat(descriptor, name, .init(mode)) }
        do {
            let folder = try OpenFolder(place, followingLinks: false)
            let status = try folder.status()
            guard status.st_uid == geteuid(), status.st_mode & 0o777 & ~mode == 0, try folder.names().isEmpty else {
                throw ReplacedFileError(path: folder.path, found: status.accessText)
            }
            return folder
        } catch {
            removeFolderIfEmpty(name)
            throw error
        }
    }

    private func share(like parent: FileStatus) throws {
        let descriptor = try reopened()
        defer { close(descriptor) }
        let status = try System.status(ofDescriptor: descriptor, path)
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
        try System.setMode(parent.st_mode & left | 0o700 | inherited, ofDescriptor: descriptor, path)
    }
}

extension System {
    /// Creates a folder, as `OpenFolder.makeFolder(_:access:)` does.
    @discardableResult
    package static func makeFolder(at path: String, access: FileAccess? = nil) throws -> Bool {
        guard let access else { return try makeFolder(FilePlace(path)) }
        let (folder, name) = place(of: path)
        return try OpenFolder(at: folder, followingLinks: true).makeFolder(name, access: access)
    }

    /// Creates a folder with what the umask leaves of 0755, unless the name is in use.
    fileprivate static func makeFolder(_ place: FilePlace) throws -> Bool {
        do {
            try perform(.mkdir, place.path) { mkdirat(place.folder, place.name, 0o755) }
            return true
        } catch let error as SystemError where error.isAlreadyThere {
            return false
        }
    }
}
