import Foundation
import GRDB

/// The transaction observers that were added to the writer connection by `SharedDatabase.add(transactionObserver:extent:)`. They
/// are also added to each connection that replaces it. Their ownership is that of GRDB.
final class AddedObservers: @unchecked Sendable {
    // @unchecked: `added` is guarded by `lock`.
    private let lock = NSLock()
    private var added: [Added] = []

    /// Records an observer for later connections. The caller adds it to the current connection.
    func note(_ observer: some TransactionObserver, _ extent: Database.TransactionObservationExtent) -> Added {
        let new = Added(observer, extent, owner: self)
        lock.withLock {
            added.removeAll { $0.observer == nil }
            added.append(new)
        }
        return new
    }

    func remove(_ observer: some TransactionObserver) {
        lock.withLock {
            if let index = added.firstIndex(where: { $0.observer === observer }) { added.remove(at: index) }
        }
    }

    /// Adds all observers to a new connection. Call it on the queue of the connection.
    func addAll(to db: Database) {
        for added in lock.withLock({ added }) { added.add(to: db) }
    }

    fileprivate func forget(_ ended: Added) {
        lock.withLock { added.removeAll { $0 === ended } }
    }

    // @unchecked: `database` is confined to the queue of one connection after the other.
    final class Added: @unchecked Sendable {
        private weak var weakObserver: (any TransactionObserver)?
        private let strongObserver: (any TransactionObserver)?
        private let extent: Database.TransactionObservationExtent
        private weak var owner: AddedObservers?
        private weak var database: Database?

        fileprivate init(
            _ observer: some TransactionObserver,
            _ extent: Database.TransactionObservationExtent,
            owner: AddedObservers
        ) {
            weakObserver = observer
            strongObserver = extent == .observerLifetime ? nil : observer
            self.extent = extent
            self.owner = owner
        }

        var observer: (any TransactionObserver)? { weakObserver }

        /// Adds the observer to a connection. Call it on the queue of the connection.
        func add(to db: Database) {
            // The observer is added to the next connection if this one is closed. It may have been added already, by `addAll`.
            guard db.sqliteConnection != nil, database !== db, let observer else { return }
            database = db
            db.add(transactionObserver: observer, extent: extent)
            if extent == .nextTransaction {
                let end = EndOfTransaction { [weak self] in
                    if let self { owner?.forget(self) }
                }
                db.add(transactionObserver: end, extent: extent)
            }
        }
    }
}

/// Calls a closure at the end of the next transaction.
private final class EndOfTransaction: TransactionObserver {
    private let body: () -> Void

    init(_ body: @escaping () -> Void) { self.body = body }

    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { false }
    func databaseDidChange(with event: DatabaseEvent) {}
    func databaseDidCommit(_ db: Database) { body() }
    func databaseDidRollback(_ db: Database) { body() }
}
