import Foundation
import GRDB
import GRDBSQLite
import RoundtableKernel

/// Opens databases for this process alone, as GRDB's own queue or pool.
///
/// ```swift
/// let scratch = try UnsharedDatabase.temporary()
/// let catalogue = try UnsharedDatabase.openQueue(at: bundledURL, configuration: readOnly)
/// ```
///
/// Nothing is coordinated: there are no turns, no control block, no observation of other processes, and no suspension. The queue or pool
/// is set up as GRDB sets it up, and can be used from any thread, as GRDB documents. If other processes write the file, only SQLite's
/// locks protect it: use ``SharedDatabase`` instead.
///
/// A file URL can have the [parameters of SQLite's URIs](https://www.sqlite.org/uri.html), such as `?mode=ro`.
///
/// ### Databases that come with the app, or lie on a read-only medium
///
/// Open them with `Configuration.readonly`, or `mode=ro`. A database in WAL mode needs a `-shm` file beside it, even for reading. If there
/// is none and none can be created, the file is opened as if it were `immutable`, because it cannot change in that folder. If its `-wal`
/// file has commits, they cannot be read, and opening fails. The same applies to a folder that only this process may not write. If
/// processes with more rights write the database, let them create its `-shm` file first, or share the database.
public enum UnsharedDatabase {
    /// Opens a database in the memory of this process ([In-Memory Databases](https://www.sqlite.org/inmemorydb.html)).
    ///
    /// All connections of the process that open the same name share one database, until the last of them closes. They also share a page
    /// cache, which locks tables: a reader and a writer of the same table can fail with `SQLITE_LOCKED`, and no busy mode waits for that.
    ///
    /// - Parameters:
    ///   - name: the name of the database. Without one, each connection has a database of its own.
    ///   - configuration: GRDB's configuration.
    /// - throws: ``DatabaseLocationError`` for a name that is empty or contains a NUL; `DatabaseError`.
    public static func inMemory(
        named name: String? = nil,
        configuration: Configuration = Configuration()
    ) throws -> DatabaseQueue {
        guard let name else { return try DatabaseQueue(configuration: configuration) }
        let uri = DatabaseURI(
            path: name,
            [URLQueryItem(name: "mode", value: "memory"), URLQueryItem(name: "cache", value: "shared")]
        )
        if name.isEmpty || name.utf8.contains(0) {
            throw DatabaseLocationError.invalidURI(
                uri.description,
                reason: "the name of the database in memory is empty, or contains a NUL: give another, or none"
            )
        }
        return try open(uri, configuration, DatabaseQueue.init(path:configuration:))
    }

    /// Opens a database of one connection. SQLite keeps it in memory while it is small, and then in a file without a name
    /// ([Temporary Databases](https://www.sqlite.org/inmemorydb.html#temp_db)). It is deleted when the connection closes.
    public static func temporary(configuration: Configuration = Configuration()) throws -> DatabaseQueue {
        try DatabaseQueue(path: "", configuration: configuration)
    }

    /// Opens a file with one connection, which serializes all accesses.
    ///
    /// - Parameters:
    ///   - url: the file, and SQLite's parameters.
    ///   - configuration: GRDB's configuration. If it or the URL is read-only, the database is opened read-only.
    /// - throws: ``DatabaseLocationError``, ``SharedDatabaseError``, `DatabaseError`.
    public static func openQueue(
        at url: URL,
        configuration: Configuration = Configuration()
    ) throws -> DatabaseQueue {
        try open(DatabaseURI(url), configuration, DatabaseQueue.init(path:configuration:))
    }

    /// Opens a file with one connection for writing and several for reading. Unless the file is opened read-only, it is switched to WAL
    /// mode.
    ///
    /// - Parameters:
    ///   - url: the file, and SQLite's parameters.
    ///   - configuration: GRDB's configuration. If it or the URL is read-only, the database is opened read-only.
    /// - throws: ``DatabaseLocationError/notForPool(location:reason:)`` for a location that cannot be in WAL mode; other errors of
    ///   ``DatabaseLocationError``; ``SharedDatabaseError``; `DatabaseError`.
    public static func openPool(
        at url: URL,
        configuration: Configuration = Configuration()
    ) throws -> DatabasePool {
        let uri = try DatabaseURI(url)
        func refuse(_ reason: String) -> DatabaseLocationError {
            .notForPool(location: uri.description, reason: reason)
        }
        if uri.isInMemory { throw refuse("this is in memory") }
        if uri.isTemporary { throw refuse("this has no name") }
        if uri["cache"] == "shared" {
            throw refuse("with cache=shared, its readers and its writer would lock each other's tables")
        }
        if uri.isOn("nolock"), !uri.isReadOnly, !configuration.readonly {
            throw refuse("nolock has no shared memory for that")
        }
        return try open(uri, configuration, DatabasePool.init(path:configuration:))
    }

    private static func open<Writer>(
        _ uri: DatabaseURI,
        _ configuration: Configuration,
        _ connect: (_ path: String, Configuration) throws -> Writer
    ) throws -> Writer {
        var (uri, configuration) = (uri, configuration)
        if uri.isInMemory || uri.isTemporary {
            try URINames.check(uri.name)
            return try connect(uri.name, configuration)
        }
        if uri.isReadOnly { configuration.readonly = true }
        // SQLite refuses a mode that allows more than the connection may do.
        if configuration.readonly, uri["mode"] != nil { uri["mode"] = "ro" }
        let file = System.resolvedPath(uri.path)
        // The file is noted when a connection is opened, because it may not exist yet.
        configuration.prepareDatabase { OpenFile.note($0, path: file) }
        try check(file, &uri, isReadOnly: configuration.readonly)
        try URINames.check(uri.name)
        do {
            return try connect(uri.name, configuration)
        } catch let error as DatabaseError {
            throw error.naming(uri.path)
        }
    }

    /// Refuses what SQLite would fail to open without saying why, and what is not safe without locks. Makes a file `immutable` that
    /// can be read only in this way.
    private static func check(_ file: String, _ uri: inout DatabaseURI, isReadOnly: Bool) throws {
        if let vfs = uri["vfs"], sqlite3_vfs_find(vfs) == nil {
            throw DatabaseLocationError.invalidURI(
                uri.description,
                reason: "this program has no VFS '\(vfs)': register it first"
            )
        }
        guard let status = try System.status(ofFileAt: file) else {
            let folder = (file as NSString).deletingLastPathComponent
            if uri["vfs"] == nil, try System.status(ofFileAt: folder) == nil {
                throw SharedDatabaseError.notAFile(
                    path: file,
                    reason: "the folder \(folder) does not exist: create it first"
                )
            }
            if isReadOnly || uri["mode"] == "rw" { throw DatabaseLocationError.noSuchFile(path: file) }
            return
        }
        if status.isFolder {
            throw SharedDatabaseError.notAFile(
                path: file,
                reason: "is a folder, not a database file. Give the path of a file"
            )
        }
        try OpenFile.refuseInherited(status, path: file)
        let lockless = ["nolock", "immutable"].first(where: uri.isOn)
        if let lockless {
            let users = FileUsers(databasePath: file).names(writing: isReadOnly)
            if !users.isEmpty {
                throw DatabaseLocationError.inUse(location: uri.description, parameter: lockless, users: users)
            }
        }
        if uri["vfs"] != nil || uri.isOn("immutable") { return }
        if lockless != nil {
            if try DatabaseHeader(databasePath: file)?.isWAL != true { return }
            throw DatabaseLocationError.invalidURI(
                uri.description,
                reason: """
                    the database is in WAL mode, which SQLite cannot use with nolock. Leave nolock out; for a file that no process writes, use \
                    immutable instead
                    """
            )
        }
        guard isReadOnly else { return }
        switch try ReadingPlace(databasePath: file) {
        case .usual: break
        case .still, .lockingOut(walBytes: 0): uri["immutable"] = "1"
        case .unreadable(let bytes), .lockingOut(let bytes):
            throw DatabaseLocationError.unreadableWAL(path: file, bytes: bytes)
        }
    }
}
