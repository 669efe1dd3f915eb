import Synchronization

/// The files of databases that are open in this process: closing any descriptor of one drops the locks that SQLite holds there (rule G5).
///
/// For code that opens files by names that others have given: a link may lead to one. Files are told by device and number, without
/// opening them. A database is registered while this object lives.
package final class LockedFiles: Sendable {
    private static let databases = Mutex<[String: Int]>([:])
    private static let endings = ["", "-shm", "-journal", "-wal", "-coord"]
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

    package enum Finding: Equatable {
        case nobodys
        /// With the path of the database.
        case part(ofDatabaseAt: String)
        /// Another file is there by now, or none. The first one may have given its number back, and to a database.
        case replaced
    }

    /// Whether a file is part of a database.
    ///
    /// - Parameters:
    ///   - file: as it was found at `path`.
    ///   - other: see the other function.
    package static func look(at path: String, foundAs file: FileIdentity, orOf other: String? = nil) throws -> Finding {
        guard let database = try database(of: file, orOf: other) else { return .nobodys }
        return try System.identity(ofFileAt: path) == file ? .part(ofDatabaseAt: database) : .replaced
    }

    /// - parameter other: a database that may be open in this process without being registered.
    /// - returns: the path of the database that the file is a part of.
    package static func database(of file: FileIdentity, orOf other: String? = nil) throws -> String? {
        var paths = databases.withLock { Array($0.keys) }
        if let other { paths.append(other) }
        for path in paths {
            for ending in endings where try System.identity(ofFileAt: path + ending) == file { return path }
        }
        return nil
    }
}

/// A file that was not opened, because it is part of a database.
package struct LockedFileError: Error, Equatable, CustomStringConvertible {
    package let path: String
    package let database: String

    package init(path: String, database: String) { (self.path, self.database) = (path, database) }

    package var description: String {
        "\(path): is a file of the database \(database), which only SQLite may open"
    }
}
