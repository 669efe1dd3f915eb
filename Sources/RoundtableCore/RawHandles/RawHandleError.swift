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
    /// The connection was inside a transaction when the turn was to end, often because an error path lacks `ROLLBACK`. The handle keeps the
    /// turn.
    ///
    /// - parameter error: the description of the error that the closure threw.
    case transactionLeftOpen(path: String, after: String?)
    /// A turn began within a turn of the same thread, or within a write to the shared database.
    case nestedTurn(path: String)
    /// A turn was to be ended by a thread that did not begin it. Often, an `await` or a queue has moved the code to another thread.
    case wrongThread(path: String)
    /// There is no turn to end: it has already ended, or never began.
    case noTurn(path: String)
    /// The handle was to be detached within a turn.
    case detachedInTurn(path: String)
    /// The handle was detached, or its database was closed during a wait for the turn. Turns that are requested after the database is
    /// closed fail with `SQLITE_MISUSE`.
    case detached(path: String)
    /// The connection shares its cache with others (`cache=shared` in its URI, or `sqlite3_enable_shared_cache`).
    case sharedCache(path: String)
    /// An async turn was requested of a connection without a mutex (`SQLITE_OPEN_NOMUTEX`), which only one thread at a time may use.
    case withoutMutex(path: String)
    /// The connection is one of Roundtable's own.
    case ownConnection(path: String)
    /// The handle keeps a turn whose transaction was left open (``transactionLeftOpen(path:after:)``). No other turn begins before it ends.
    ///
    /// - parameter since: where that turn began.
    case turnKept(path: String, since: String?)
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
        case .transactionLeftOpen(let path, let error):
            """
            \(path): the turn cannot end while the connection has an open transaction\(error.map { ", after: \($0)" } ?? ""). Nothing was rolled \
            back, and the handle still holds the turn, for which all other writers wait. COMMIT or ROLLBACK, then call endTurn().
            """
        case .nestedTurn(let path):
            """
            \(path): this thread already holds a turn, of a handle or of a write to the SharedDatabase, and would wait for itself. End that first, or \
            do both in one turn.
            """
        case .wrongThread(let path):
            """
            \(path): another thread holds this turn, and may be writing. Call endTurn() on the thread that called beginTurn(), or use withTurn.
            """
        case .noTurn(let path):
            """
            \(path): there is no turn to end: it has already ended, or did not begin. Call endTurn() once for each beginTurn() that succeeded, or \
            use withTurn.
            """
        case .detachedInTurn(let path):
            "\(path): the handle holds the turn. End it with endTurn(), and then detach."
        case .detached(let path):
            "\(path): the handle was detached, or its SharedDatabase closed. Attach the connection to an open SharedDatabase again."
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
        case .turnKept(let path, let site):
            """
            \(path): the turn\(site.map { " of \($0)" } ?? "") has not ended, because its transaction was left open: COMMIT or ROLLBACK, then \
            endTurn(). All other writers wait for this.
            """
        }
    }

    public var errorDescription: String? {
        switch self {
        case .readOnly: "The database cannot be changed by this program."
        case .turnKept: "The database is in use."
        default: "The database cannot be used by this program."
        }
    }

    /// The error as a [SQLite result code](https://www.sqlite.org/rescode.html) for C. Most are extended codes that Roundtable defines.
    package var code: CInt {
        let misuse = ResultCode.SQLITE_MISUSE.rawValue
        return switch self {
        case .readOnly: ResultCode.SQLITE_READONLY.rawValue
        case .otherDatabase: misuse | 1 << 8
        case .notAFile: misuse | 2 << 8
        case .notInWALMode: misuse | 3 << 8
        case .otherSQLite: misuse | 4 << 8
        case .transactionOpen: misuse | 5 << 8
        case .transactionLeftOpen: misuse | 6 << 8
        case .nestedTurn: misuse | 7 << 8
        case .wrongThread: misuse | 8 << 8
        case .noTurn: misuse | 9 << 8
        case .detachedInTurn: misuse | 10 << 8
        case .detached: misuse | 11 << 8
        case .sharedCache: misuse | 12 << 8
        case .withoutMutex: misuse | 13 << 8
        case .ownConnection: misuse | 14 << 8
        case .turnKept: misuse | 15 << 8
        }
    }
}
