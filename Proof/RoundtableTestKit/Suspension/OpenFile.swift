/// A regular file that a process has open, with the locks that this process holds on it.
public struct OpenFile: Codable, Hashable, Sendable {
    /// The path of the file, without symbolic links.
    public var path: String
    /// The locks that the process holds on the file.
    public var locks: [FileLock]
    /// The first 100 bytes of the file, or all of it if it is shorter. Empty for a file that is exempt by its name (such as `…-shm`),
    /// or that is not locked.
    public var header: [UInt8]
    /// Whether the file has the extended attribute `com.apple.runningboard.can-suspend-locked`, with a value of one byte that is not zero.
    /// On Linux, the name begins with `user.`: `setfattr -n user.com.apple.runningboard.can-suspend-locked -v 1 FILE`.
    public var canSuspendLocked: Bool

    public init(path: String, locks: [FileLock] = [], header: [UInt8] = [], canSuspendLocked: Bool = false) {
        self.path = path
        self.locks = locks
        self.header = header
        self.canSuspendLocked = canSuspendLocked
    }

    static let headerSize = 100

    enum Content: Equatable {
        /// A SQLite database (<https://www.sqlite.org/fileformat2.html#the_database_header>).
        case database(isWAL: Bool)
        /// Roundtable's control block.
        case controlBlock
        /// Any other file, including an encrypted database whose header is not plain text.
        case other
    }

    var content: Content {
        if header.starts(with: "RNDTABLE".utf8) { return .controlBlock }
        guard header.count > 18, header.starts(with: "SQLite format 3\0".utf8) else { return .other }
        return .database(isWAL: header[18] == 2)
    }
}
