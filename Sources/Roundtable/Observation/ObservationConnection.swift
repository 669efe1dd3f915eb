import GRDB
import RoundtableKernel
import Synchronization

/// The connection that value observations fetch on, in all participants: neither waits for the writer connection, nor keeps it
/// from writing.
///
/// SQLite has it read-only. GRDB does not know that, for it tells observers of a read-only connection nothing; it is told of
/// commits with `Database.notifyChanges(in:)`. It never gives up waiting for SQLite's locks: an observation ends for good with the
/// first error.
final class ObservationConnection: Sendable {
    private let reader: ReaderConnection
    private let patience: Patience
    /// Where SQLite counts commits. Valid until this connection is closed; its database cannot leave WAL mode before.
    let commitCounter: CommitCounter

    var queue: DatabaseQueue { reader.queue }

    init(path: String, options: SharedDatabase.Options) throws {
        let patience = Patience(until: MonotonicClock.now.addingSaturating(options.backgroundBusyTimeout.nanoseconds))
        var configuration = options.readerConfiguration(path: path)
        configuration.readonly = false
        configuration.busyMode = .callback { patience.wait(tries: $0) }
        let reader = try ReaderConnection(
            options.connectionOpening(path),
            configuration,
            at: Onlooker.uri(path, "mode=ro")
        )
        let (isWAL, counter): (Bool, CommitCounter?) = try reader.queue.inDatabase { db in
            // Without WAL, asking for the wal-index would create it.
            guard try String.fetchOne(db, sql: "PRAGMA journal_mode") == "wal" else { return (false, nil) }
            return (true, try reader.isolated(db) { _ in WalIndex(db)?.commitCounter })
        }
        guard let counter else {
            let problem =
                isWAL
                ? """
                cannot be observed: no process that may write \(path)-shm has the database open, and this one may not. Start a program that \
                writes the database first, or give this user the permission
                """
                : "is not in WAL mode, and cannot be observed: open it once for writing"
            throw DatabaseError(resultCode: .SQLITE_CANTOPEN, message: "\(path): \(problem)")
        }
        self.reader = reader
        self.patience = patience
        commitCounter = counter
        patience.isEndless.store(true, ordering: .relaxed)
    }

    /// Tells the observers of this connection. On its queue.
    func notify(_ db: Database, _ tables: Change.Tables) throws {
        try reader.isolated(db) { try $0.notifyChanges(in: tables) }
    }

    /// What waits for a lock gives up.
    func endWaiting() { patience.end() }

    /// Closes when nothing runs on it.
    func closing() -> ConnectionClosing {
        endWaiting()
        return ConnectionClosing(queue) { [reader] _ in reader.finalize() }
    }

    /// Not on `queue`. A cursor that an observation keeps, keeps it open.
    func close() { try? reader.close() }

    /// From any thread, `queue` included: the connection closes when nobody uses it any more.
    func letGo() {
        queue.asyncWriteWithoutTransaction { [reader] _ in reader.finalize() }
    }
}

/// SQLite's busy handler for a connection that waits as long as it takes.
private final class Patience: Sendable {
    private let deadline: Nanoseconds
    let isEndless = Atomic(false)
    private let isOver = Atomic(false)

    init(until deadline: Nanoseconds) { self.deadline = deadline }

    func end() { isOver.store(true, ordering: .relaxed) }

    func wait(tries: Int) -> Bool {
        if isOver.load(ordering: .relaxed) { return false }
        if !isEndless.load(ordering: .relaxed), MonotonicClock.now >= deadline { return false }
        let pause = min(Nanoseconds(20_000_000), 100_000 << Nanoseconds(min(tries, 8)))
        MonotonicClock.sleep(pause)
        return true
    }
}

extension Database {
    /// Tells this connection's observers that these tables have changed. In a transaction.
    func notifyChanges(in tables: Change.Tables) throws {
        switch tables {
        case .fullDatabase:
            do {
                try notifyChanges(in: DatabaseRegion.fullDatabase)
            } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
                // One table of many cannot be looked at: a virtual one without its module, say.
                let names = try String.fetchAll(self, sql: "SELECT name FROM sqlite_master WHERE type = 'table'")
                try notifyChanges(in: .some(Set(names)))
            }
        case .some(let names):
            for name in names {
                do {
                    try notifyChanges(in: Table(name))
                } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
                    // There is no such table any more, or it cannot be read: it cannot be observed either.
                }
            }
        }
    }
}
