import Foundation
import GRDB
import GRDBSQLite
import Roundtable
import RoundtableKernel
import RoundtableTestSupport

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Observes all commits and the last row of the table, and logs the notifications.
final class PeerObserver {
    private let log: ObservationLog
    private var cancellables: [AnyDatabaseCancellable] = []
    private var task: Task<Void, Never>?

    init(_ observing: Observing, of database: SharedDatabase) throws {
        let log = try ObservationLog(writingAt: observing.log)
        self.log = log
        if observing.asSequence {
            let changes = database.changes()
            task = Task.detached {
                do {
                    for try await change in changes {
                        log.append(observed(change, in: database))
                        try await Task.sleep(for: .milliseconds(observing.pauseMilliseconds))
                    }
                } catch {
                    log.append(error: "\(error)")
                }
            }
        } else {
            cancellables.append(
                try database.observeChanges(on: DispatchQueue(label: "peer.changes")) { change in
                    log.append(observed(change, in: database))
                    pause(milliseconds: observing.pauseMilliseconds)
                }
            )
        }
        let lastRow = ValueObservation.tracking { db in try Int.fetchOne(db, sql: lastRowQuery) ?? 0 }
        cancellables.append(
            lastRow.start(
                in: database,
                scheduling: .async(onQueue: DispatchQueue(label: "peer.values")),
                onError: { log.append(error: "\($0)") },
                onChange: { log.append(ObservedValue(lastRow: $0, time: MonotonicClock.now)) }
            )
        )
    }
}

private let lastRowQuery = "SELECT MAX(id) FROM entry"

/// A change, with what can be read after its notification.
private func observed(_ change: DatabaseChange, in database: SharedDatabase) -> ObservedChange {
    let readable = try? database.read { try Int.fetchOne($0, sql: lastRowQuery) ?? 0 }
    return ObservedChange(
        sequence: change.sequence,
        readable: readable ?? -1,
        detail: change.detail.rawValue,
        pid: change.pid ?? 0,
        author: change.author ?? "",
        tables: change.tableNames?.sorted() ?? ["*"],
        isOwn: change.isOwn,
        time: MonotonicClock.now
    )
}

/// Makes this process end at a moment of the next commit. It must be called inside the transaction.
func arrangeDeath(at moment: DyingMoment, in db: Database) {
    switch moment {
    case .beforeCommitting:
        // This observer is called after all earlier observers, including the library's.
        db.add(transactionObserver: Death(), extent: .databaseLifetime)
    case .beforePublishing:
        // This hook replaces the one in which the library publishes.
        sqlite3_wal_hook(
            db.sqliteConnection,
            { _, _, _, _ in
                kill(getpid(), SIGKILL)
                return SQLITE_OK
            },
            nil
        )
    }
}

private final class Death: TransactionObserver {
    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { false }
    func databaseDidChange(with event: DatabaseEvent) {}
    func databaseWillCommit() throws { kill(getpid(), SIGKILL) }
    func databaseDidCommit(_ db: Database) {}
    func databaseDidRollback(_ db: Database) {}
}
