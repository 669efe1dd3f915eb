import Foundation
import GRDB

/// The errors of a ``SharedDatabase/RawHandle``. SQLite's own errors, such as `SQLITE_BUSY`, are reported as GRDB's `DatabaseError`.
public enum RawHandleError: Error, Equatable, Sendable {
    /// The connection is to another file than the shared database: it was opened with another path, or the file was replaced meanwhile.
    case otherDatabase(attached: String, shared: String)
    /// The connection is to a database in memory, or to a temporary one.
    case notAFile(shared: String)
    /// The connection, or the shared database, is read-only. Turns are for writing.
    case readOnly(path: String)
    /// The database is not in WAL mode, according to the connection. Usually, the other library sets `PRAGMA journal_mode`: remove that.
    case notInWALMode(path: String, mode: String)
    /// The connection was opened by another copy of SQLite than the one that Roundtable uses, or through another VFS. Usually, a dependency
    /// bundles its own SQLite (an amalgamation).
    case otherSQLite(path: String)
    /// The connection was inside a transaction when the handle was made, or when a turn was to begin. Either `BEGIN` came before the turn,
    /// or a library that begins transactions implicitly has not committed.
    case transactionOpen(path: String)
    /// The closure has returned inside a transaction that has written. It was rolled back. Often, a `COMMIT` is missing.
    case transactionLeftOpen(path: String)
    /// A turn began within a turn of the same thread, or within a write to the shared database.
    case nestedTurn(path: String)
    /// The handle was to be detached within a turn.
    case detachedInTurn(path: String)
    /// The handle was detached.
    case detached(path: String)
    /// The connection shares its cache with others (`cache=shared` in its URI, or `sqlite3_enable_shared_cache`).
    case sharedCache(path: String)
    /// An async turn was requested of a connection without a mutex (`SQLITE_OPEN_NOMUTEX`), which only one thread at a time may use.
    case withoutMutex(path: String)
    /// The connection is one of Roundtable's own.
    case ownConnection(path: String)
}

extension RawHandleError: CustomStringConvertible, LocalizedError {
    public var description: String {
        switch self {
        case .otherDatabase(let attached, let shared):
            """
            \(attached): not the shared database, which is \(shared). Open the connection with the path of the SharedDatabase, or attach \
            it to the one that was opened for this file.
            """
        case .notAFile(let shared):
            """
            The connection is to a database in memory, or to a temporary one, and not to \(shared): no other process can see it, and it needs no \
            turns. Open \(shared) instead.
            """
        case .readOnly(let path):
            """
            \(path): read-only, so it takes no turns and commits nothing. A connection that only reads needs no handle; to write, open \
            both the connection and the SharedDatabase for writing.
            """
        case .notInWALMode(let path, let mode):
            """
            \(path): the connection is in journal mode '\(mode)' and not in WAL mode. Open it after SharedDatabase.open, which sets WAL mode, and \
            leave the mode as it is.
            """
        case .otherSQLite(let path):
            """
            \(path): the connection was opened by another copy of SQLite than the one that Roundtable is linked with, or through another VFS. Two \
            copies in one process drop each other's locks, which loses commits. Link both with the same library.
            """
        case .transactionOpen(let path):
            """
            \(path): the connection has an open transaction, without a turn. Others may be writing: COMMIT or ROLLBACK, acquire the turn, and \
            then begin.
            """
        case .transactionLeftOpen(let path):
            """
            \(path): the closure of the turn has left a transaction open, which was rolled back. What it had committed before stays. COMMIT before it \
            returns.
            """
        case .nestedTurn(let path):
            """
            \(path): this thread already holds a turn, of a handle or of a write to the SharedDatabase, and would wait for itself. End that first, or \
            do both in one turn.
            """
        case .detachedInTurn(let path):
            "\(path): a turn of the handle is running. Let its closure return, and then detach."
        case .detached(let path):
            "\(path): the handle was detached. Attach the connection to an open SharedDatabase again."
        case .sharedCache(let path):
            """
            \(path): the connection is in SQLite's shared-cache mode, where connections of this process share their locks, and checking a lock would \
            drop it. Open it without cache=shared, and without sqlite3_enable_shared_cache(1).
            """
        case .withoutMutex(let path):
            """
            \(path): the connection has no mutex (SQLITE_OPEN_NOMUTEX), and an async turn would use it on another thread than its owner does. Open it \
            with SQLITE_OPEN_FULLMUTEX, or take turns that are not async on the thread that uses it.
            """
        case .ownConnection(let path):
            """
            \(path): the connection is Roundtable's own, and takes its turns already. Write with the SharedDatabase, or attach a connection that \
            you have opened.
            """
        }
    }

    public var errorDescription: String? {
        switch self {
        case .readOnly: "The database cannot be changed by this program."
        default: "The database cannot be used by this program."
        }
    }
}

extension DatabaseError {
    /// The error of a close during the turn of a raw handle.
    static func inRawTurn(_ path: String) -> DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_BUSY,
            message: "\(path): not closed, because a raw handle has the turn. Let its closure return, and close again"
        )
    }
}
