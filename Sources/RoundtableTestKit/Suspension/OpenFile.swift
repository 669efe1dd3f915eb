/// A regular file that a process has open, with the locks that this process has on it.
public struct OpenFile: Codable, Hashable, Sendable {
    public var path: String
    public var locks: [FileLock]
    /// The first 100 bytes, or as many as there are.
    public var header: [UInt8]

    public init(path: String, locks: [FileLock] = [], header: [UInt8] = []) {
        self.path = path
        self.locks = locks
        self.header = header
    }

    static let headerSize = 100

    enum Content: Equatable {
        /// <https://www.sqlite.org/fileformat2.html#the_database_header>
        case database(isWAL: Bool)
        /// The memory that Roundtable's participants share.
        case controlBlock
        /// An encrypted database among them, unless its header is plain text.
        case other
    }

    var content: Content {
        if header.starts(with: "RNDTABLE".utf8) { return .controlBlock }
        guard header.count > 18, header.starts(with: "SQLite format 3\0".utf8) else { return .other }
        return .database(isWAL: header[18] == 2)
    }
}
