#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The place of a file: a path, or a name in an open folder (openat(2)).
struct FilePlace {
    let folder: Int32
    let name: String
    /// The path for error messages.
    let path: String

    init(_ path: String) { (folder, name, self.path) = (AT_FDCWD, path, path) }

    /// - parameter shown: the name for error messages, of a file that has another name for now.
    init(_ name: String, in folder: OpenFolder, shownAs shown: String? = nil) {
        (self.folder, self.name, path) = (folder.descriptor, name, folder.file(shown ?? name))
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
        // The number is that of <fcntl.h>, which Swift's Glibc module leaves out.
        private static let flags = 0o10_000_000 | O_DIRECTORY | O_CLOEXEC
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

    init(_ place: FilePlace, followingLinks: Bool) throws {
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
    func reopened() throws -> Int32 {
        try System.perform(.open, path) { openat(descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) }
    }

    // MARK: Looking

    /// The names of the folder's contents, in no order.
    package func names() throws -> [String] { try System.names(inFolder: path, descriptor: reopened()) }

    /// `lstat`; nil when there is no such file.
    package func status(ofFile name: String) throws -> stat? {
        try System.status(of: FilePlace(name, in: self), followingLinks: false)
    }

    /// `stat`, which follows symbolic links; nil when there is no such file.
    package func status(ofTarget name: String) throws -> stat? {
        try System.status(of: FilePlace(name, in: self), followingLinks: true)
    }

    /// All bytes of a file, unless it is part of a database (rule G5); see `System.contents(ofFileAt:limit:followingLinks:notOf:)`.
    package func contents(ofFile name: String, limit: Int, notOf database: String? = nil) throws -> [UInt8]? {
        try System.contents(of: FilePlace(name, in: self), limit: limit, followingLinks: false, notOf: database)
    }

    // MARK: Changing

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

    /// Removes an empty folder, and ignores failures.
    package func removeFolderIfEmpty(_ name: String) {
        _ = System.performReturningErrno(.unlink) { unlinkat(descriptor, name, AT_REMOVEDIR) == 0 ? 0 : errno }
    }

    /// Removes a file, and ignores failures. It is meant for files that do no harm when they stay.
    package func removeIfPossible(_ name: String) { System.removeIfPossible(FilePlace(name, in: self)) }

    /// Opens the file of a lock in this folder. A symbolic link is not followed.
    ///
    /// - returns: a descriptor, which the caller closes.
    package func openLock(_ name: String) throws -> Int32 {
        try System.perform(.open, file(name)) {
            openat(descriptor, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        }
    }

    /// Waits until the names in the folder are on the disk.
    package func sync() throws {
        let descriptor = try reopened()
        defer { close(descriptor) }
        try System.sync(descriptor, path)
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
