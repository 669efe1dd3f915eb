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
    // Alive whenever SQLite calls the hook. (A weak reference would make GRDB's uses of it slower.)
    private unowned var database: Database?

    /// As with SQLite's automatic checkpoint, which this takes the place of.
    private static let attachedThreshold = 1000

    /// The connection must not outlive this object.
    func install(in db: Database) {
        database = db
        sqlite3_wal_hook(
            db.sqliteConnection,
            { context, _, name, frames in
                let hook = Unmanaged<WalHook>.fromOpaque(context!).takeUnretainedValue()
                if let name, strcmp(name, "main") == 0 {
                    hook.mainDidCommit(Int(frames))
                } else {
                    hook.attachedDidCommit()
                    if let name { hook.checkpointAttached(String(cString: name), frames: Int(frames)) }
                }
                return SQLITE_OK
            },
            Unmanaged.passUnretained(self).toOpaque()
        )
    }

    /// Attached databases have no participants: nobody else would checkpoint them. Within the commit, as SQLite does.
    private func checkpointAttached(_ name: String, frames: Int) {
        guard frames >= Self.attachedThreshold, let database else { return }
        _ = CheckpointStep.passive(database, schema: name)
    }
}
