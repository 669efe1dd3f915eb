import GRDB
import GRDBSQLite

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The [WAL hook](https://www.sqlite.org/c3ref/wal_hook.html) of a connection, which replaces SQLite's automatic checkpoint.
/// SQLite calls it after each commit that wrote to the WAL, when the write lock is released.
final class WalHook: @unchecked Sendable {
    // @unchecked: confined to the connection's queue, where SQLite calls the hook.

    /// Called with the number of frames that are in the main database's WAL now.
    var mainDidCommit: (Int) -> Void = { _ in }
    /// Called for attached databases.
    var attachedDidCommit: () -> Void = {}
    // The connection is alive whenever SQLite calls the hook. A weak reference would make GRDB's uses of it slower.
    private unowned var database: Database?

    /// The number of frames from which an attached database is checkpointed, as with SQLite's automatic checkpoint.
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

    /// Checkpoints an attached database within the commit, as SQLite does. Attached databases have no participants, so no other
    /// process checkpoints them.
    private func checkpointAttached(_ name: String, frames: Int) {
        guard frames >= Self.attachedThreshold, let database else { return }
        _ = CheckpointStep.passive(database, schema: name)
    }
}
