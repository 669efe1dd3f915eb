import GRDB
import RoundtableCore
import Synchronization

extension MaterializedView {
    /// Returns the current rows of the view.
    ///
    /// - Parameters:
    ///   - db: a connection, inside of an access.
    ///   - limit: the maximum number of rows per group, from its beginning, or nil for all.
    /// - throws: ``DerivedTableError``, `DatabaseError`.
    public func contents(in db: Database, limit: Int? = nil) throws -> ViewContents {
        let stored = try stored(db)
        var contents = ViewContents(
            groups: [],
            identity: stored.identity,
            last: try lastChange(stored, db),
            limit: limit
        )
        for (group, _) in try groups(in: db) {
            contents.groups.append(.init(name: group, keys: try keys(stored, db, group: group, limit: limit)))
        }
        return contents
    }

    /// Returns the changes since earlier contents, and replaces these with the current ones.
    ///
    /// The cost is that of listing the changed groups. Contents that are more than some thousand changes old are compared row by row.
    ///
    /// - throws: ``DerivedTableError``, `DatabaseError`.
    public func changes(since contents: inout ViewContents, in db: Database) throws -> ViewChanges {
        let stored = try stored(db)
        let last = try lastChange(stored, db)
        if stored.identity == contents.identity, last == contents.last { return ViewChanges() }
        let touched = try touched(since: contents, stored, last, db)
        var new = ViewContents(groups: [], identity: stored.identity, last: last, limit: contents.limit)
        let known = Dictionary(contents.groups.map { (ExactValue($0.name), $0.keys) }) { first, _ in first }
        for (group, _) in try groups(in: db) {
            if let touched, !touched.groups.contains(ExactValue(group)), let keys = known[ExactValue(group)] {
                new.groups.append(.init(name: group, keys: keys))
            } else {
                let keys = try keys(stored, db, group: group, limit: contents.limit)
                new.groups.append(.init(name: group, keys: keys))
            }
        }
        defer { contents = new }
        return ViewChanges(from: contents.groups, to: new.groups, touched: touched?.keys)
    }

    /// Returns the groups and keys that the log contains since earlier contents. Returns nil if the log does not reach back that far, or if it is
    /// not the log that the contents were read with, because changes were rolled back or a backup was restored.
    private func touched(
        since contents: ViewContents,
        _ stored: StoredDerivedTable,
        _ last: ViewContents.LastChange,
        _ db: Database
    ) throws -> (groups: Set<ExactValue>, keys: Set<ViewKey>)? {
        guard stored.identity == contents.identity, contents.last.sequence < last.sequence else { return nil }
        let log = "\(stored.schema).\(part("log"))"
        if contents.last.sequence > 0 {
            let sql = "SELECT \(Self.stamp) FROM \(log) WHERE \(Self.sequence) = ?"
            let stamp = try Int64.fetchOne(db, sql: sql, arguments: [contents.last.sequence])
            guard stamp == contents.last.stamp else { return nil }
        } else {
            guard try Int64.fetchOne(db, sql: "SELECT min(\(Self.sequence)) FROM \(log)") == 1 else { return nil }
        }
        var groups: Set<ExactValue> = []
        var keys: Set<ViewKey> = []
        let list = stored.keyColumns.map(\.sqlName).joined(separator: ", ")
        let sql = "SELECT \(Self.group), \(list) FROM \(log) WHERE \(Self.sequence) > ?"
        let rows = try Row.fetchCursor(db, sql: sql, arguments: [contents.last.sequence])
        while let row = try rows.next() {
            let group: DatabaseValue = row[0]
            // The group is NULL if the row stays in its place, because the trigger does not look it up.
            if !group.isNull { groups.insert(ExactValue(group)) }
            keys.insert(ViewKey(Array(row.databaseValues.dropFirst())))
        }
        return (groups, keys)
    }

    private func lastChange(_ stored: StoredDerivedTable, _ db: Database) throws -> ViewContents.LastChange {
        let log = "\(stored.schema).\(part("log"))"
        let sql = "SELECT \(Self.sequence), \(Self.stamp) FROM \(log) ORDER BY \(Self.sequence) DESC LIMIT 1"
        guard let row = try Row.fetchOne(db, sql: sql) else { return ViewContents.LastChange() }
        return ViewContents.LastChange(sequence: row[0], stamp: row[1])
    }

    /// Returns a sequence of the view's current rows and of all later changes, by any process.
    ///
    /// ```swift
    /// for try await update in inbox.updates(in: shared, limit: 200) {
    ///     list.apply(update.changes, update.contents)     // the first one has no changes
    /// }
    /// ```
    ///
    /// Changes that happen before you request the next element are combined. The sequence waits while the view is being built. It ends when
    /// its task is cancelled, and when the database is closed. If the database is already closed, the sequence throws `SQLITE_MISUSE`. It
    /// keeps the database open.
    public func updates(in database: SharedDatabase, limit: Int? = nil) -> ViewUpdates {
        ViewUpdates(view: self, database: database, limit: limit)
    }
}

/// The sequence of a view's states: see ``MaterializedView/updates(in:limit:)``.
public struct ViewUpdates: AsyncSequence, Sendable {
    public struct Update: Sendable {
        /// The changes since the previous update. They are empty for the first update.
        public let changes: ViewChanges
        public let contents: ViewContents
    }

    let view: MaterializedView
    let database: SharedDatabase
    let limit: Int?

    public func makeAsyncIterator() -> Iterator {
        let view = view
        // The observation only wakes the iterator, which then reads the changes.
        let wakes = ValueObservation.tracking { db in
            let log = DerivedTableNames.part(view.name, "log")
            // A temporary derived table is derived again when its base table changes.
            let base = try TemporaryDerivedTable.baseTable(of: view.name, db)
            for table in [log, base ?? "roundtable_extensions"] { try db.registerAccess(to: Table(table)) }
        }
        return Iterator(view: view, database: database, limit: limit, wakes: Wakes(wakes, in: database))
    }

    public struct Iterator: AsyncIteratorProtocol {
        let view: MaterializedView
        let database: SharedDatabase
        let limit: Int?
        var wakes: Wakes
        var contents: ViewContents?

        public mutating func next() async throws -> Update? {
            while try await wakes.next() != nil {
                let before = contents
                do {
                    let update = try await database.read { [view, limit] db -> Update in
                        guard var contents = before else {
                            return Update(changes: ViewChanges(), contents: try view.contents(in: db, limit: limit))
                        }
                        let changes = try view.changes(since: &contents, in: db)
                        return Update(changes: changes, contents: contents)
                    }
                    contents = update.contents
                    if before == nil || !update.changes.isEmpty { return update }
                } catch DerivedTableError.building, DerivedTableError.notFollowing {
                    // It is built, or will be: a migration or another program has recreated the base table.
                    continue
                } catch let error as DatabaseError where error.isSuspension {
                    // The observation notifies again when the database is resumed.
                    continue
                } catch DatabaseError.SQLITE_MISUSE where database.isClosed.withLock({ $0 }) {
                    return nil
                } catch is CancellationError where Task.isCancelled {
                    return nil
                }
            }
            return nil
        }
    }

    /// The notifications of an observation, until the database is closed. GRDB's observations do not report that the database is closed.
    struct Wakes {
        private var stream: AsyncThrowingStream<Void, any Error>.AsyncIterator
        /// The observation and the close handler. They are cancelled when the iterator is released.
        private let sources: [AnyDatabaseCancellable]

        init(_ observation: ValueObservation<ValueReducers.Fetch<Void>>, in database: SharedDatabase) {
            // The buffer keeps one notification, because the iterator reads the changes when it asks for the next element.
            let (stream, continuation) = AsyncThrowingStream<Void, any Error>.makeStream(
                bufferingPolicy: .bufferingNewest(1)
            )
            self.stream = stream.makeAsyncIterator()
            do {
                try database.checkOpen()
                let closing = try database.onClose { continuation.finish() }
                let observing = observation.start(
                    in: database,
                    scheduling: .task,
                    onError: { continuation.finish(throwing: $0) },
                    onChange: { continuation.yield() }
                )
                sources = [observing, closing]
                continuation.onTermination = { [weak observing, weak closing] _ in
                    observing?.cancel()
                    closing?.cancel()
                }
            } catch {
                sources = []
                continuation.finish(throwing: error)
            }
        }

        mutating func next() async throws -> Void? { try await stream.next() }
    }
}
