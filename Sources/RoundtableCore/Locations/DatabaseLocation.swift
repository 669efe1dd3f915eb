import Foundation

/// The place of a database: a file, memory, a temporary file, or what a SQLite URI names.
///
/// ``SharedDatabase`` opens files only; ``UnsharedDatabase`` opens all locations.
public enum DatabaseLocation: Sendable, Hashable {
    /// A database file.
    case file(URL)

    /// A database in the memory of this process
    /// ([In-Memory Databases](https://www.sqlite.org/inmemorydb.html)).
    ///
    /// All connections of the process that open the same name share one database, until the last of them closes. They also share a page
    /// cache, which locks tables: a reader and a writer of the same table can fail with `SQLITE_LOCKED`, and no busy mode waits for that.
    /// Without a name, each connection has a database of its own.
    case memory(named: String? = nil)

    /// A database of one connection. SQLite keeps it in memory while it is small, and then in a file without a name
    /// ([Temporary Databases](https://www.sqlite.org/inmemorydb.html#temp_db)). It is deleted when the connection closes.
    case temporary

    /// A database that is opened as a SQLite URI says.
    case uri(DatabaseURI)

    /// A database file. A relative path is relative to the current directory.
    public static func file(path: String) -> DatabaseLocation {
        // A file URL would silently cut a path at a NUL. A URI reports the NUL when it is opened.
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
    /// The file that the participants share.
    ///
    /// - throws: ``DatabaseLocationError/notShareable(location:_:)``, with the location as the caller gave it.
    package func sharedFile() throws -> URL {
        do {
            return try uri().sharedFile()
        } catch DatabaseLocationError.notShareable(_, let hindrance) {
            throw DatabaseLocationError.notShareable(location: description, hindrance)
        }
    }

    /// The location as a URI.
    ///
    /// - throws: ``SharedDatabaseError/notAFileURL(_:)`` for a file location whose URL is no file URL; ``DatabaseLocationError``.
    package func uri() throws -> DatabaseURI {
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
