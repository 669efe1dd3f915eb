import GRDB

/// Notifies the observers of an observation connection, and lets all of them fetch in one read transaction.
///
/// GRDB notifies observers at the end of a transaction. Each observation that has changed then fetches in a transaction of its own, whose
/// statements GRDB compiles each time. So the first observer of the connection begins a transaction with prepared statements, and the last
/// observer ends it. The observations in between find a transaction, and fetch in it. This halves the time from a commit to a fresh value,
/// and the values of one notification belong to one state of the database.
///
/// Confined to the queue of the connection.
final class FetchTransaction: @unchecked Sendable {
    // @unchecked: confined to the queue of the connection.
    private let reader: ReaderConnection
    private let first: CommitObserver
    private let last: CommitObserver
    /// The regions of tables, by name, for the schema with this version. GRDB compiles a statement to find a region.
    private var regions: (schemaVersion: Int32?, byTable: [String: DatabaseRegion]) = (nil, [:])

    init(_ reader: ReaderConnection) {
        self.reader = reader
        first = CommitObserver { [unowned reader] db in
            // If this fails, each observation begins a transaction of its own, and reports the error.
            try? reader.begin(db)
        }
        last = CommitObserver { [unowned reader] db in reader.endUnobserved(db) }
        reader.queue.inDatabase { [first, last] db in
            db.add(transactionObserver: first, extent: .databaseLifetime)
            db.add(transactionObserver: last, extent: .databaseLifetime)
        }
    }

    /// Notifies the observers of the changed tables. They fetch before this returns.
    ///
    /// - parameter changed: returns the changed tables; nil when there are none.
    /// - returns: the changed tables.
    /// - throws: when SQLite is busy. No observer was notified then.
    func notify(_ db: Database, _ changed: () -> DatabaseChange.Tables?) throws -> DatabaseChange.Tables? {
        try reader.beginUnread(db)
        do {
            guard let tables = changed() else {
                try db.rollback()
                return nil
            }
            try reader.forgetSchemaIfChanged(db)
            // Observers of these tables fetch at the end of the transaction.
            try db.notifyChanges(in: tables) { try region(ofTable: $0, db) }
            first.isActive = true
            last.isActive = true
            defer {
                first.isActive = false
                last.isActive = false
            }
            try reader.end(db)
            return tables
        } catch {
            // The first error is the one to report.
            try? db.rollback()
            throw error
        }
    }

    /// GRDB notifies observers in the order in which they were added.
    func observerWasAdded(to db: Database) {
        db.remove(transactionObserver: last)
        db.add(transactionObserver: last, extent: .databaseLifetime)
    }

    private func region(ofTable name: String, _ db: Database) throws -> DatabaseRegion {
        if regions.schemaVersion != reader.lastSchemaVersion { regions = (reader.lastSchemaVersion, [:]) }
        if let region = regions.byTable[name] { return region }
        let region = try Table(name).databaseRegion(db)
        if reader.lastSchemaVersion != nil { regions.byTable[name] = region }
        return region
    }
}

/// Calls a closure at the end of the next transaction, once, if it is active. Statements that run in the meantime may end other
/// transactions of which GRDB notifies this observer.
private final class CommitObserver: TransactionObserver {
    var isActive = false
    private let didCommit: (Database) -> Void

    init(_ didCommit: @escaping (Database) -> Void) { self.didCommit = didCommit }

    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { false }
    func databaseDidChange(with event: DatabaseEvent) {}
    func databaseDidCommit(_ db: Database) {
        guard isActive else { return }
        isActive = false
        didCommit(db)
    }
    func databaseDidRollback(_ db: Database) {}
}
