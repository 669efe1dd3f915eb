import Foundation
import RoundtableKernel

/// How a database file can be read where it lies, by a process that does not write it.
///
/// SQLite reads a database in WAL mode with the help of its `-shm` file, which it creates if need be
/// ([read-only databases](https://www.sqlite.org/wal.html#readonly)).
enum ReadingPlace: Equatable {
    /// As SQLite does it.
    case usual
    /// The companion files are missing and cannot be created: nobody has it open, and the database file is all there is.
    case still
    /// The same, with so many bytes of commits that are not in the database file.
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
        // Somebody with more rights.
        if try size("-shm") != nil, !SystemLocks.users(databasePath: path).isEmpty { return }
        let bytes = try size("-wal") ?? 0
        self = bytes == 0 ? .still : .unreadable(walBytes: bytes)
    }

    /// For participants, who need the wal-index.
    static func refuseStill(databasePath path: String) throws {
        switch try ReadingPlace(databasePath: path) {
        case .usual: break
        case .still: throw DatabaseLocationError.notShareable(location: path, .noWalIndex)
        case .unreadable(let bytes): throw DatabaseLocationError.unreadableWAL(path: path, bytes: bytes)
        }
    }
}
