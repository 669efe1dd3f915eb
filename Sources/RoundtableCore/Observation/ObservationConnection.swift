import GRDB
import RoundtableKernel
import Synchronization

/// The connection that value observations fetch on, in all participants. They neither wait for the writer connection nor keep it from
/// writing.
///
/// The connection is read-only for SQLite. GRDB does not know that, because it notifies no observers of a read-only connection. Commits
/// are reported to it with `Database.notifyChanges(in:)`. Once open, the connection waits for SQLite's locks without a timeout, because
/// the first error ends an observation for good.
final class ObservationConnection: Sendable {
    private let reader: ReaderConnection
    private let patience: Patience
    /// Notifies the observers of this connection.
    let fetching: FetchTransaction
    /// It is valid until this connection is closed, because the database cannot leave WAL mode before that.
    let walIndex: WalIndexView
    /// Whether `Configuration.prepareDatabase` has attached databases. SQLite opens these for writing.
    let hasAttachedDatabases: Bool

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
        let (isWAL, view): (Bool, WalIndexView?) = try reader.queue.inDatabase { db in
            // Without WAL, asking for the wal-index would create it.
            guard try db.isInWALMode() else { return (false, nil) }
            return (true, try reader.isolated(db) { _ in WalIndex(db)?.view })
        }
        guard let view else {
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
        hasAttachedDatabases = reader.queue.inDatabase { $0.hasAttachedDatabases }
        fetching = FetchTransaction(reader)
        walIndex = view
        patience.isEndless.store(true, ordering: .relaxed)
    }

    /// Call it before an observation is started on this connection. It returns immediately. GRDB fetches the first value without looking
    /// whether another connection has changed the schema.
    func willStartObservation() {
        // If this fails, the first fetch probably fails for the same reason, and reports it.
        queue.asyncWriteWithoutTransaction { [reader] db in try? reader.forgetSchemaIfChanged(db) }
    }

    /// Call it after an observation was started on this connection. It returns immediately.
    func didStartObservation() {
        queue.asyncWriteWithoutTransaction { [fetching] db in fetching.observerWasAdded(to: db) }
    }

    /// Ends waits for locks, now and later.
    func endWaiting() { patience.end() }

    /// Begins to close the connection, which closes when nothing runs on it.
    func close(with closings: ConnectionClosings) {
        endWaiting()
        closings.begin(queue, .observation) { [reader] _ in reader.finalize() }
    }

    /// Closes the connection. Do not call it on `queue`. A cursor that an observation holds keeps the connection open.
    func close() { try? reader.close() }

    /// Releases the connection, which closes when nothing uses it any more. Call it on any thread, `queue` included.
    func closeWhenUnused() {
        queue.asyncWriteWithoutTransaction { [reader] _ in reader.finalize() }
    }
}

/// SQLite's busy handler for a connection that waits up to a deadline, and without a limit once `isEndless` is set.
private final class Patience: Sendable {
    private static let backoff = Backoff(.microseconds(100), upTo: .milliseconds(20))
    private let deadline: Nanoseconds
    let isEndless = Atomic(false)
    private let isOver = Atomic(false)

    init(until deadline: Nanoseconds) { self.deadline = deadline }

    func end() { isOver.store(true, ordering: .relaxed) }

    func wait(tries: Int) -> Bool {
        if isOver.load(ordering: .relaxed) { return false }
        if !isEndless.load(ordering: .relaxed), MonotonicClock.now >= deadline { return false }
        MonotonicClock.sleep(Self.backoff.pause(after: tries + 1))
        return true
    }
}
