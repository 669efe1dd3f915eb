import Foundation
import RoundtableKernel

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

    init(databasePath path: String) throws {
        func size(_ suffix: String) throws -> Int? {
            try System.status(ofFileAt: path + suffix).map { Int($0.st_size) }
        }
        let folder = (path as NSString).deletingLastPathComponent
        self = .usual
        guard try size("-shm") == nil || size("-wal") == nil, !System.mayWrite(folder),
            try DatabaseHeader(databasePath: path)?.isWAL == true
        else { return }
        // A process with more rights has the database open.
        if try size("-shm") != nil, !SystemLocks.users(databasePath: path).isEmpty { return }
        let bytes = try size("-wal") ?? 0
        self = bytes == 0 ? .still : .unreadable(walBytes: bytes)
    }

    /// Throws unless the place is `usual`, because participants need the wal-index.
    static func refuseStill(databasePath path: String) throws {
        switch try ReadingPlace(databasePath: path) {
        case .usual: break
        case .still: throw DatabaseLocationError.notShareable(location: path, .noWalIndex)
        case .unreadable(let bytes): throw DatabaseLocationError.unreadableWAL(path: path, bytes: bytes)
        }
    }
}
