import Foundation
import RoundtableKernel

// Rule W13: A process that only reads creates no `-wal` and no `-shm` that one who may write the database may not write. SQLite gives a
// companion the mode of the database, and its owner only if root creates it. So if one is missing in a WAL database, and a file with that
// mode, this user and the folder's group would exclude the owner or the group, although the mode lets them write, the opening is refused. A
// look from outside then reads the database file alone.

/// How a process that does not write a database file can read it in its folder.
///
/// SQLite needs the `-shm` file to read a database in WAL mode, and creates it if necessary
/// ([read-only databases](https://www.sqlite.org/wal.html#readonly)).
enum ReadingPlace: Equatable {
    /// SQLite can read the file as usual.
    case usual
    /// A companion file is missing and cannot be created. No process has the database open, and the database file is complete.
    case still
    /// The `-shm` file is missing and cannot be created, and the `-wal` file has this many bytes of commits that are not in the database
    /// file.
    case unreadable(walBytes: Int)
    /// A companion file is missing, and could be created, but not so that all who may write the database could write it. The `-wal` file
    /// has this many bytes of commits.
    case lockingOut(walBytes: Int)

    init(databasePath path: String) throws {
        func size(_ suffix: String) throws -> Int? {
            try System.status(ofFileAt: path + suffix).map { Int($0.st_size) }
        }
        let folder = (path as NSString).deletingLastPathComponent
        self = .usual
        guard try size("-shm") == nil || size("-wal") == nil else { return }
        let locksOut = System.mayWrite(folder)
        if locksOut, try !Self.wouldLockOut(databasePath: path, folder: folder) { return }
        guard try DatabaseHeader(databasePath: path)?.isWAL == true else { return }
        // A process with more rights has the database open.
        if try size("-shm") != nil, !SystemLocks.users(databasePath: path).isEmpty { return }
        let bytes = try size("-wal") ?? 0
        self = locksOut ? .lockingOut(walBytes: bytes) : bytes == 0 ? .still : .unreadable(walBytes: bytes)
    }

    /// Whether a companion file that this process creates could not be written by all who may write the database. SQLite gives it the
    /// mode of the database, and its owner and group only if this process is root's.
    private static func wouldLockOut(databasePath path: String, folder: String) throws -> Bool {
        guard geteuid() != 0, let database = try System.status(ofFileAt: path) else { return false }
        var companion = database
        companion.st_uid = geteuid()
        companion.st_gid = try System.groupOfNewFiles(in: folder)
        let mayAll = database.st_mode & 0o002 != 0
        if database.st_mode & 0o020 != 0, !mayAll, companion.st_gid != database.st_gid { return true }
        let owner = Credentials(ownerOf: database)
        return owner.permissions(for: database) & 0o2 != 0 && owner.permissions(for: companion) & 0o2 == 0
    }

    /// Throws if reading the database would create files that keep its writers out (rule W13). Call it before each connection of a
    /// process that only reads.
    static func refuseLockingOut(databasePath path: String) throws {
        if case .lockingOut = try ReadingPlace(databasePath: path) {
            throw DatabaseLocationError.companionsWouldKeepWritersOut(path: path)
        }
    }

    /// Throws unless the place is `usual`, because participants need the wal-index.
    static func refuseStill(databasePath path: String) throws {
        switch try ReadingPlace(databasePath: path) {
        case .usual: break
        case .lockingOut: throw DatabaseLocationError.companionsWouldKeepWritersOut(path: path)
        case .still: throw DatabaseLocationError.noWalIndex(path: path)
        case .unreadable(let bytes): throw DatabaseLocationError.unreadableWAL(path: path, bytes: bytes)
        }
    }
}
