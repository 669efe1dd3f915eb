import Foundation

/// Where a database is: in a file, in memory, in a temporary file, or where a URI of SQLite says.
///
/// ``SharedDatabase`` opens files; ``UnsharedDatabase`` opens them all.
public enum DatabaseLocation: Sendable, Hashable {
    /// A database file.
    case file(URL)

    /// A database in the memory of this process
    /// ([In-Memory Databases](https://www.sqlite.org/inmemorydb.html)).
    ///
    /// With a name, all connections of the process that open that name share it, until the last one closes. They share a page cache, too, with
    /// locks on tables: a reader and a writer of one table fail with `SQLITE_LOCKED` where they meet, and no busy mode waits for that. Without
    /// a name, each connection has one of its own.
    case memory(named: String? = nil)

    /// A database of one connection, which SQLite keeps in memory until it is large, and then in a file without a name
    /// ([Temporary Databases](https://www.sqlite.org/inmemorydb.html#temp_db)). It is gone when the connection closes.
    case temporary

    /// A database that a URI says how to open.
    case uri(DatabaseURI)

    /// A database file. A relative path is taken from the current directory.
    public static func file(path: String) -> DatabaseLocation {
        // A file URL would be cut without a word. A URI says so when it is opened.
        path.utf8.contains(0) ? .uri(DatabaseURI(path: path)) : .file(URL(fileURLWithPath: path))
    }
}

extension DatabaseLocation: CustomStringConvertible {
    public var description: String {
        switch self {
        case .file(let url): url.isFileURL ? url.path : url.absoluteString
        case .memory(nil): "a database in memory"
        case .memory(let name?): "the database '\(name)' in memory"
        case .temporary: "a temporary database"
        case .uri(let uri): uri.description
        }
    }
}

extension DatabaseLocation {
    /// The file that participants are to share.
    ///
    /// - throws: ``DatabaseLocationError/notShareable(location:_:)``, by the words that the location was given in.
    func sharedFile() throws -> URL {
        do {
            return try uri().sharedFile()
        } catch DatabaseLocationError.notShareable(_, let hindrance) {
            throw DatabaseLocationError.notShareable(location: description, hindrance)
        }
    }

    /// As a URI, which can say all of it but a file URL that names no file.
    func uri() throws -> DatabaseURI {
        switch self {
        case .file(let url):
            guard url.isFileURL else { throw SharedDatabaseError.notAFileURL(url) }
            return DatabaseURI(path: url.path)
        case .memory(nil): return DatabaseURI(path: ":memory:")
        case .memory(let name?): return try DatabaseURI(path: name, cache: .shared, mode: .memory).checked()
        case .temporary: return DatabaseURI(path: "")
        case .uri(let uri): return try uri.checked()
        }
    }
}
