import Synchronization

/// The files of the databases that are open in this process. Closing any descriptor of such a file drops the locks that SQLite holds on
/// it (rule G5).
///
/// Code that opens a file by a name from elsewhere checks it here, because the name may be a link to a database file. Files are
/// compared by device and inode number, without opening them. A database is registered while this object lives.
package final class LockedFiles: Sendable {
    private static let databases = Mutex<[String: Int]>([:])
    private let path: String

    package init(ofDatabaseAt path: String) {
        self.path = path
        Self.databases.withLock { $0[path, default: 0] += 1 }
    }

    deinit {
        Self.databases.withLock { databases in
            let count = databases[path, default: 1] - 1
            databases[path] = count == 0 ? nil : count
        }
    }

    package enum Parts: Sendable {
        case all
        /// The files that SQLite locks.
        case locked

        fileprivate var endings: [String] {
            ["", "-shm", "-journal"] + (self == .all ? ["-wal", ControlBlock.ending] : [])
        }
    }

    package enum Finding: Equatable {
        case unclaimed
        /// The file is part of the database at this path.
        case part(ofDatabaseAt: String)
        /// The path has another file by now, or none. The first file's inode number may have been reused, even for a database file.
        case replaced
    }

    /// Whether a file is part of a database.
    ///
    /// - parameter file: the identity of the file that was found at `path`.
    package static func look(at path: String, foundAs file: FileIdentity) throws -> Finding {
        try look(at: FilePlace(path), foundAs: file, orOf: nil, .all)
    }

    /// - Parameters:
    ///   - other: a database that may be open in this process without being registered.
    ///   - parts: the files of a database that are considered.
    static func look(
        at place: FilePlace,
        foundAs file: FileIdentity,
        orOf other: String?,
        _ parts: Parts
    ) throws -> Finding {
        guard let database = try database(of: file, orOf: other, parts) else { return .unclaimed }
        let found = try System.status(of: place, followingLinks: true).map(FileIdentity.init)
        return found == file ? .part(ofDatabaseAt: database) : .replaced
    }

    /// Finds the database that a file is part of.
    ///
    /// - parameter other: a database that may be open in this process without being registered.
    /// - returns: the path of the database that the file is part of; nil when there is none.
    package static func database(
        of file: FileIdentity,
        orOf other: String? = nil,
        _ parts: Parts = .all
    ) throws -> String? {
        var paths = databases.withLock { Array($0.keys) }
        if let other, !paths.contains(other) { paths.append(other) }
        for path in paths {
            for ending in parts.endings {
                let found: FileIdentity?
                do {
                    found = try System.identity(ofFileAt: path + ending)
                } catch  where path != other {
                    // A registered database that cannot be reached must not keep other files from being opened.
                    continue
                }
                if found == file { return path }
            }
        }
        return nil
    }
}

/// A file that was not opened, because it is part of a database.
package struct LockedFileError: Error, Equatable, CustomStringConvertible {
    package let path: String
    package let database: String

    package var description: String {
        "\(path): is a file of the database \(database), which only SQLite may open"
    }
}
