import GRDB
import GRDBSQLite

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// SQLite's one [WAL hook](https://www.sqlite.org/c3ref/wal_hook.html) of a connection, which takes the place of its
/// automatic checkpoint. SQLite calls it after each commit that wrote to the WAL, when the write lock is released.
final class WalHook: @unchecked Sendable {
    // @unchecked: confined to the connection's queue, where SQLite calls the hook.

    /// Called with the number of frames that are in the main database's WAL now.
    var mainDidCommit: (Int) -> Void = { _ in }
    /// Called for attached databases.
    var attachedDidCommit: () -> Void = {}

    /// The connection must not outlive this object.
    func install(in db: Database) {
        sqlite3_wal_hook(
            db.sqliteConnection,
            { context, _, name, frames in
                let hook = Unmanaged<WalHook>.fromOpaque(context!).takeUnretainedValue()
                if let name, strcmp(name, "main") == 0 {
                    hook.mainDidCommit(Int(frames))
                } else {
                    hook.attachedDidCommit()
                }
                return SQLITE_OK
            },
            Unmanaged.passUnretained(self).toOpaque()
        )
    }
}
