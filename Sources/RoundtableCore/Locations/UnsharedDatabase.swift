import Foundation
import GRDB
import GRDBSQLite
import RoundtableKernel

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Opens databases for this process alone. It opens every ``DatabaseLocation``, as GRDB's own queue or pool.
///
/// ```swift
/// let scratch = try UnsharedDatabase.openQueue(at: .temporary)
/// let catalogue = try UnsharedDatabase.openQueue(at: .file(bundledURL), configuration: readOnly)
/// ```
///
/// Nothing is coordinated: there are no turns, no control block, no observation of other processes, and no suspension. The queue or pool
/// is set up as GRDB sets it up, and can be used from any thread, as GRDB documents. If other processes write the file, only SQLite's
/// locks protect it: use ``SharedDatabase`` instead.
///
/// ### Databases that come with the app, or lie on a read-only medium
///
/// Open them with `Configuration.readonly`, or `mode=ro`. A database in WAL mode needs a `-shm` file beside it, even for reading. If there
/// is none and none can be created, the file is opened as if it were `immutable`, because it cannot change in that folder. If its `-wal`
/// file has commits, they cannot be read, and opening fails. The same applies to a folder that only this process may not write. If
/// processes with more rights write the database, let them create its `-shm` file first, or share the database.
public enum UnsharedDatabase {
    /// Opens a location with one connection, which serializes all accesses.
    ///
    /// - Parameters:
    ///   - location: the location to open.
    ///   - configuration: GRDB's configuration. If it or the location is read-only, the database is opened read-only.
    /// - throws: ``DatabaseLocationError``, ``SharedDatabaseError``, `DatabaseError`.
    public static func openQueue(
        at location: DatabaseLocation,
        configuration: Configuration = Configuration()
    ) throws -> DatabaseQueue {
        let opening = try UnsharedOpening(location, configuration)
        return try opening.naming { try DatabaseQueue(path: opening.path, configuration: opening.configuration) }
    }

    /// Opens a file with one connection for writing and several for reading. Unless the file is opened read-only, it is switched to WAL
    /// mode.
    ///
    /// - Parameters:
    ///   - location: the location to open.
    ///   - configuration: GRDB's configuration. If it or the location is read-only, the database is opened read-only.
    /// - throws: ``DatabaseLocationError/notForPool(location:reason:)`` for a location that cannot be in WAL mode; other errors of
    ///   ``DatabaseLocationError``; ``SharedDatabaseError``; `DatabaseError`.
    public static func openPool(
        at location: DatabaseLocation,
        configuration: Configuration = Configuration()
    ) throws -> DatabasePool {
        let opening = try UnsharedOpening(location, configuration)
        if let reason = opening.poolHindrance {
            throw DatabaseLocationError.notForPool(location: location.description, reason: reason)
        }
        return try opening.naming { try DatabasePool(path: opening.path, configuration: opening.configuration) }
    }
}

/// The path and the configuration that are passed to GRDB.
private struct UnsharedOpening {
    private var uri: DatabaseURI
    private(set) var configuration: Configuration
    private let location: DatabaseLocation

    init(_ location: DatabaseLocation, _ configuration: Configuration) throws {
        self.location = location
        self.configuration = configuration
        uri = try location.uri()
        if case .memory(.some("")) = location {
            throw DatabaseLocationError.invalidURI(
                uri.description,
                reason: "a database in memory without a name is not shared: give it one, or open .memory()"
            )
        }
        try URINames.check(path)
        if uri.isInMemory || uri.isTemporary { return }
        if !uri.mayWrite { self.configuration.readonly = true }
        if self.configuration.readonly, uri.mode != nil { uri.mode = .readOnly }
        try check(file: System.resolvedPath(uri.file.path))
    }

    private mutating func check(file: String) throws {
        // The file is noted when a connection is opened, because it may not exist yet.
        configuration.prepareDatabase { OpenFile.note($0, path: file) }
        if let vfs = uri.vfs, sqlite3_vfs_find(vfs) == nil {
            throw DatabaseLocationError.invalidURI(
                uri.description,
                reason: "this program has no VFS '\(vfs)': register it first"
            )
        }
        guard let status = try System.status(ofFileAt: file) else {
            let folder = (file as NSString).deletingLastPathComponent
            if uri.vfs == nil, try System.status(ofFileAt: folder) == nil {
                throw SharedDatabaseError.notAFile(
                    path: file,
                    reason: "the folder \(folder) does not exist: create it first"
                )
            }
            guard configuration.readonly || uri.mode == .readWrite else { return }
            throw DatabaseLocationError.noSuchFile(path: file)
        }
        if status.st_mode & S_IFMT == S_IFDIR {
            throw SharedDatabaseError.notAFile(path: file, reason: "is a folder, not a database file")
        }
        try OpenFile.refuseInherited(status, path: file)
        let isEmpty = status.st_size == 0
        if uri.isUnlocked || uri.isImmutable {
            let users = FileUsers(databasePath: file).names(writing: configuration.readonly)
            guard users.isEmpty else {
                throw DatabaseLocationError.inUse(
                    location: location.description,
                    parameter: uri.isUnlocked ? "nolock" : "immutable",
                    users: users
                )
            }
            if uri.isUnlocked, !uri.isImmutable, uri.vfs == nil, try DatabaseHeader(databasePath: file)?.isWAL == true {
                throw DatabaseLocationError.invalidURI(
                    uri.description,
                    reason: """
                        the database is in WAL mode, which SQLite cannot use with nolock. Leave nolock out; for a file that no process writes, use \
                        immutable instead
                        """
                )
            }
        } else if configuration.readonly, uri.vfs == nil, !isEmpty {
            switch try ReadingPlace(databasePath: file) {
            case .usual: break
            case .still, .lockingOut(walBytes: 0): uri.isImmutable = true
            case .unreadable(let bytes), .lockingOut(let bytes):
                throw DatabaseLocationError.unreadableWAL(path: file, bytes: bytes)
            }
        }
    }

    /// The plain path where it is sufficient, so that GRDB's `path` is what its users expect; otherwise the URI.
    var path: String {
        switch location {
        case .memory(nil), .temporary: uri.path
        case .file where uri == DatabaseURI(path: uri.path): uri.path
        default: uri.description
        }
    }

    var poolHindrance: String? {
        if uri.isInMemory { return "this is in memory" }
        if uri.isTemporary { return "this has no name" }
        if uri.cache == .shared {
            return "with cache=shared, its readers and its writer would lock each other's tables"
        }
        if uri.isUnlocked, !configuration.readonly { return "nolock has no shared memory for that" }
        return nil
    }

    func naming<T>(_ open: () throws -> T) throws -> T {
        do {
            return try open()
        } catch let error as DatabaseError where !uri.isInMemory && !uri.isTemporary {
            throw error.naming(uri.path)
        }
    }
}
