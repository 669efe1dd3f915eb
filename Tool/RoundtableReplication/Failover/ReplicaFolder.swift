import RoundtableKernel
import RoundtableToolSupport

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A replica in a folder of this machine. What is created in it is for the users of the replica: the superuser gives it to the folder's owner
/// before it has its name, by its descriptor, and gives away nothing else. The owner of the folder may put anything there, such as a link, or
/// a private folder of the superuser's under another name.
struct ReplicaFolder {
    private let root: OpenFolder
    private let status: FileStatus

    init(at path: String) throws {
        root = try OpenFolder(at: path, followingLinks: true)
        status = try root.status()
    }

    /// Opens a folder in the replica, and creates it if it is missing. No link is followed.
    ///
    /// - parameter names: of the folders on the way, from the top down.
    /// - throws: `ToolError` for a folder of the superuser's in the replica of another user.
    func folder(at names: [String]) throws -> OpenFolder { try names.reduce(root) { try folder($1, in: $0) } }

    private func folder(_ name: String, in above: OpenFolder) throws -> OpenFolder {
        if try above.makeFolder(name, like: status) { try above.sync() }
        let folder = try above.folder(name)
        // What this process creates has the owner of the replica.
        if geteuid() == 0, status.st_uid != 0, try folder.status().st_uid == 0 {
            throw ToolError(
                "\(folder.path): belongs to root, and the replica to another user, \(status.st_uid), who may have given it this name. Look what it is, move it away, and try again."
            )
        }
        return folder
    }

    /// Creates the empty file of a lock, if it is missing, for those who may write the replica.
    func makeLock(_ name: String, in folder: OpenFolder) throws {
        do {
            // In a sticky folder, such as /tmp, not all who may write there share what they create.
            let access = access(status.st_mode & S_ISVTX == 0 ? 0o666 : 0o644)
            try folder.makeFile(name, [], access: access, isDurable: false)
        } catch let error as SystemError where error.isAlreadyThere {}
    }

    private func access(_ mode: UInt16) -> FileAccess {
        var status = status
        status.st_mode &= .init(mode)
        return FileAccess(status)
    }

    /// Copies files and folders into a folder of the replica. A name that is in use stays what it is.
    ///
    /// - parameter names: the folder, as ``folder(at:)`` takes it.
    func copy(_ files: OpenFolder, to names: [String]) throws { try copy(files, into: folder(at: names)) }

    private func copy(_ files: OpenFolder, into place: OpenFolder) throws {
        for name in try files.names().sorted() {
            guard let found = try files.status(ofFile: name) else { continue }
            if found.isFolder {
                try copy(files.folder(name), into: folder(name, in: place))
            } else if let bytes = try files.contents(ofFile: name, limit: Self.limit) {
                try put(bytes, as: name, in: place)
            }
        }
        try place.sync()
    }

    private func put(_ bytes: [UInt8], as name: String, in place: OpenFolder) throws {
        let prefix = ".roundtable-claim"
        let unfinished = UnfinishedFile.name(prefix)
        // What was left by a promotion that was killed.
        defer { _ = try? UnfinishedFile.removeAbandoned(in: place, prefix) }
        try place.makeFile(unfinished, bytes, access: access(0o644), isDurable: true)
        do {
            try place.move(unfinished, toUnused: name, in: place)
        } catch let error as SystemError {
            place.removeIfPossible(unfinished)
            guard error.isAlreadyThere else { throw error }
        }
    }

    /// A claim has less than a kilobyte.
    private static let limit = 16 << 20
}
