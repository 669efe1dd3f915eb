import Foundation

/// The reason why a location cannot be opened as requested. Nothing was opened or written.
public enum DatabaseLocationError: Error, Equatable, Sendable {
    /// SQLite would reject this URI, or would interpret it differently than its author meant. For example, `file://folder/app.db` lacks a
    /// slash, and names a host `folder`. A NUL usually comes from a C buffer.
    case invalidURI(String, reason: String)

    /// The SQLite library of this program does not interpret URIs: it takes them for file names.
    case urisAreOff(location: String)

    /// ``SharedDatabase`` does not open this location, because processes could not share it, or not safely.
    case notShareable(location: String, reason: String)

    /// The database is in WAL mode and has no `-shm` file, and none can be created in its folder.
    case noWalIndex(path: String)

    /// The database is in WAL mode, its `-wal` or `-shm` file is missing, and this process, which only reads, would create it so that
    /// others who may write the database could not write it. This is typical after a restore, or when the `sqlite3` shell of another user
    /// was the last to close the database.
    case companionsWouldKeepWritersOut(path: String)

    /// The location says `nolock` or `immutable`, and other users have the file open: no locks would be taken or respected.
    case inUse(location: String, parameter: String, users: [String])

    /// There is no file, and it is not to be created: the location says `mode=rw`, or is read-only.
    case noSuchFile(path: String)

    /// The location says `mode=ro`, and the database is not ready to be read.
    case unavailable(path: String, SharedDatabase.Unavailability)

    /// A `DatabasePool` needs a file that can be in WAL mode.
    case notForPool(location: String, reason: String)

    /// The database lies in a folder that cannot be written, and its `-wal` file has commits that cannot be read there. Typically, a
    /// bundled database was copied while it was in use, or after a crash.
    case unreadableWAL(path: String, bytes: Int)
}

extension DatabaseLocationError: CustomStringConvertible, LocalizedError {
    public var description: String {
        switch self {
        case .invalidURI(let uri, let reason): "\(uri): \(reason)"
        case .urisAreOff(let location):
            """
            \(location): not opened, since the SQLite of this program takes URIs for names of files, and Roundtable needs them to open databases \
            read-only, to observe, and to name databases in memory. Build SQLite with SQLITE_USE_URI=1, or call \
            sqlite3_config(SQLITE_CONFIG_URI, 1) before anything in the program uses SQLite.
            """
        case .notShareable(let location, let reason): "\(location): cannot be shared: \(reason)."
        case .noWalIndex(let path):
            """
            \(path): cannot be shared: it is in WAL mode and has no -shm file, which cannot be created here, so no process can be writing it \
            and there is nothing to share. Open it with UnsharedDatabase.openQueue(at:) and a configuration that is readonly.
            """
        case .companionsWouldKeepWritersOut(let path):
            """
            \(path): cannot be shared: it is in WAL mode without its -wal or -shm file, and this process (user \(geteuid())) would create files \
            that keep others out who may write the database. Open it once with a process of its owner; until then, read it with \
            UnsharedDatabase.openQueue(at:) and a configuration that is readonly.
            """
        case .inUse(let location, let parameter, let users):
            """
            \(location): not opened with \(parameter), since \(users.joined(separator: ", ")) \(users.count == 1 ? "has" : "have") the file \
            open: without locks, what is read can be half written, and what is written can corrupt the file. Open it without \
            \(parameter), or when no other process has it open.
            """
        case .noSuchFile(let path):
            "\(path): there is no such file, and it was not to be created. Check the path, or open it with mode=rwc."
        case .unavailable(let path, let reason): "\(path): cannot be read now: \(reason.advice)."
        case .notForPool(let location, let reason):
            "\(location): a DatabasePool needs a file in WAL mode, and \(reason). Use UnsharedDatabase.openQueue(at:)."
        case .unreadableWAL(let path, let bytes):
            """
            \(path): its -wal file has \(bytes) bytes of commits, which cannot be read here: reading them needs a -shm file, and none can \
            be created. Before the database is put here, empty the -wal file: PRAGMA wal_checkpoint(TRUNCATE), or PRAGMA journal_mode = DELETE.
            """
        }
    }

    public var errorDescription: String? {
        switch self {
        case .noSuchFile: "The database does not exist."
        case .inUse: "Another program has the database open."
        case .unavailable(_, .notCreated): "The database does not exist yet."
        case .unavailable(_, .schemaTooOld): "The database has to be updated first."
        case .unavailable(_, .schemaTooNew): "The database was changed by a newer version of this program."
        case .unreadableWAL: "The latest changes cannot be read here."
        case .invalidURI, .urisAreOff, .notShareable, .noWalIndex, .companionsWouldKeepWritersOut, .notForPool:
            "The database cannot be opened."
        }
    }

    public var recoverySuggestion: String? {
        switch self {
        case .inUse: "Close it there, and try again."
        case .unavailable(_, .notCreated), .unavailable(_, .schemaTooOld): "Start the program that writes it."
        case .unavailable(_, .schemaTooNew): "Update this program."
        default: nil
        }
    }
}

extension SharedDatabase.Unavailability {
    fileprivate var advice: String {
        func list(_ names: [String]) -> String { names.map { "'\($0)'" }.joined(separator: ", ") }
        return switch self {
        case .notCreated: "no process has created it yet. Use openReadOnly(at:), which answers instead, or can wait"
        case .schemaTooOld(let missing):
            "these migrations are still to be applied by a process that writes: \(list(missing))"
        case .schemaTooNew(let unknown):
            "it has migrations that this program does not know: \(list(unknown)). Update this program"
        }
    }
}
