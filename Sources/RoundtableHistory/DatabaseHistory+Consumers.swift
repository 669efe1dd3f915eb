import Foundation
import GRDB
import RoundtableCore

/// Consumers are readers whose position is kept in the database. See <doc:KeepingAHistory>.
extension DatabaseHistory {
    /// Hands out the changes that the consumer has not acknowledged yet, and acknowledges them when `body` has returned. Each change
    /// is handed out *at least once*: if `body` throws, or the process dies, the same changes are handed out again.
    ///
    /// A new consumer starts over in the same way as one that has missed changes.
    ///
    /// ```swift
    /// do {
    ///     while try await db.history.consume(as: "indexer", { changes in try await index.update(changes) }).hasMore {}
    /// } catch HistoryError.startOver(_, let token) {
    ///     try await index.rebuild(from: db)
    ///     try await db.history.restartConsumer("indexer", at: token)
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - name: the name of the consumer. Two processes that use the same name may both get a change.
    ///   - tables: the tables whose changes are handed out; nil for all recorded tables. A consumer may ask for fewer tables than
    ///     before. If it asks for more, it must start over, because the changes of the other tables were acknowledged already.
    ///   - limit: the most changes that are handed out in one call.
    ///   - body: called with the changes, outside of any transaction; not called when there is nothing new.
    /// - returns: the changes that were handed out. Call again immediately while it `hasMore`.
    /// - throws: ``HistoryError``: `startOver` when changes are missing, until ``DatabaseHistory/restartConsumer(_:at:)`` is called; `readOnly`,
    ///   `notEnabled`, `notTracked`, `newerFormat`; what `body`, `read` and `write` throw.
    @discardableResult
    public func consume(
        as name: String,
        in tables: [String]? = nil,
        limit: Int = 1000,
        _ body: @Sendable ([HistoryChange]) async throws -> Void
    ) async throws -> HistoryPage {
        try checkMayConsume()
        let consumption = Consumption(name: name, tables: tables, limit: limit)
        var step = try await database.read { db in try consumption.next(db) }
        if step == nil { step = try await database.write { db in try consumption.nextInWrite(db) }.get() }
        guard let step else { throw HistoryError.notEnabled(path: database.path) }
        let page = step.page
        if !page.changes.isEmpty { try await body(page.changes) }
        if step.isWorthNoting { try await database.write { db in try step.acknowledge(db, name) } }
        return page
    }

    /// Hands out the changes that the consumer has not acknowledged yet, each change *at least once*, blocking the calling thread.
    ///
    /// Parameters and errors are those of the asynchronous form.
    @_disfavoredOverload
    @discardableResult
    public func consume(
        as name: String,
        in tables: [String]? = nil,
        limit: Int = 1000,
        _ body: ([HistoryChange]) throws -> Void
    ) throws -> HistoryPage {
        try checkMayConsume()
        let consumption = Consumption(name: name, tables: tables, limit: limit)
        var step = try database.read { db in try consumption.next(db) }
        if step == nil { step = try database.write { db in try consumption.nextInWrite(db) }.get() }
        guard let step else { throw HistoryError.notEnabled(path: database.path) }
        let page = step.page
        if !page.changes.isEmpty { try body(page.changes) }
        if step.isWorthNoting { try database.write { db in try step.acknowledge(db, name) } }
        return page
    }

    /// Hands out changes in a write transaction, and acknowledges them in the same transaction. What `body` writes into this database
    /// happens *exactly once* for each change. Effects elsewhere happen at least once.
    ///
    /// All other writers wait meanwhile; a small `limit` keeps that short. What `body` writes into recorded tables is handed out too,
    /// with this participant as ``HistoryChange/author``.
    ///
    /// - throws: as ``DatabaseHistory/consume(as:in:limit:_:)``. If `body` throws, nothing is written or acknowledged.
    @discardableResult
    public func consumeInTransaction(
        as name: String,
        in tables: [String]? = nil,
        limit: Int = 100,
        file: StaticString = #fileID,
        line: UInt = #line,
        _ body: @Sendable (Database, [HistoryChange]) throws -> Void
    ) async throws -> HistoryPage {
        try checkMayConsume()
        let consumption = Consumption(name: name, tables: tables, limit: limit)
        return try await database.write(file: file, line: line) { db in try consumption.run(db, body) }.get()
    }

    /// Hands out changes in a write transaction, and acknowledges them in the same transaction, blocking the calling thread.
    ///
    /// Parameters and errors are those of the asynchronous form.
    @_disfavoredOverload
    @discardableResult
    public func consumeInTransaction(
        as name: String,
        in tables: [String]? = nil,
        limit: Int = 100,
        file: StaticString = #fileID,
        line: UInt = #line,
        _ body: (Database, [HistoryChange]) throws -> Void
    ) throws -> HistoryPage {
        try checkMayConsume()
        let consumption = Consumption(name: name, tables: tables, limit: limit)
        return try database.write(file: file, line: line) { db in try consumption.run(db, body) }.get()
    }

    /// Sets the position of a consumer. Call it with the token of the error after the consumer has started over, or call it to
    /// register the consumer before it consumes for the first time.
    ///
    /// Until it is called, a consumer that must start over gets the error each time. So a process that dies while it starts over
    /// begins again.
    ///
    /// - Parameters:
    ///   - name: the name of the consumer.
    ///   - token: nil for the end of the history.
    /// - throws: ``HistoryError``: `notEnabled`, `newerFormat`, `readOnly`, and `startOver` for a token of another history; what `write`
    ///   throws.
    public func restartConsumer(_ name: String, at token: HistoryToken? = nil) async throws {
        try checkMayConsume()
        try await database.write { db in try Consumption.restart(db, name, at: token) }
    }

    /// Sets the position of a consumer, blocking the calling thread.
    ///
    /// Parameters and errors are those of the asynchronous form.
    @_disfavoredOverload
    public func restartConsumer(_ name: String, at token: HistoryToken? = nil) throws {
        try checkMayConsume()
        try database.write { db in try Consumption.restart(db, name, at: token) }
    }

    /// Returns all consumers, including dropped ones.
    ///
    /// - throws: ``HistoryError/notEnabled(path:)``, ``HistoryError/newerFormat(path:format:)``; what `read` throws.
    public func consumers() async throws -> [HistoryConsumer] {
        try await database.read { db in try HistoryConsumers.fetchAll(db) }
    }

    /// Returns all consumers, including dropped ones, blocking the calling thread.
    ///
    /// - throws: ``HistoryError/notEnabled(path:)``, ``HistoryError/newerFormat(path:format:)``; what `read` throws.
    @_disfavoredOverload
    public func consumers() throws -> [HistoryConsumer] {
        try database.read { db in try HistoryConsumers.fetchAll(db) }
    }

    /// Returns all consumers, including dropped ones, as `db` sees them.
    ///
    /// - throws: ``HistoryError/notEnabled(path:)``, ``HistoryError/newerFormat(path:format:)``.
    public static func consumers(in db: Database) throws -> [HistoryConsumer] {
        try HistoryConsumers.fetchAll(db)
    }

    /// Drops a consumer: no changes are kept for it any more. If it returns, it must start over.
    ///
    /// - returns: whether there was such a consumer, which was not dropped before.
    /// - throws: ``HistoryError/notEnabled(path:)``, ``HistoryError/newerFormat(path:format:)``, ``HistoryError/readOnly(path:)``;
    ///   what `write` throws.
    @discardableResult
    public func dropConsumer(_ name: String) async throws -> Bool {
        try checkMayConsume()
        return try await database.write { db in try HistoryConsumers.drop(db, name) }
    }

    /// Drops a consumer, blocking the calling thread.
    ///
    /// Results and errors are those of the asynchronous form.
    @_disfavoredOverload
    @discardableResult
    public func dropConsumer(_ name: String) throws -> Bool {
        try checkMayConsume()
        return try database.write { db in try HistoryConsumers.drop(db, name) }
    }

    private func checkMayConsume() throws {
        if database.role == .readOnly { throw HistoryError.readOnly(path: database.path) }
    }
}

/// One round of a consumer.
private struct Consumption: Sendable {
    let name: String
    let tables: [String]?
    let limit: Int

    struct Step: Sendable {
        let page: HistoryPage
        /// Whether the consumer's row should be updated.
        let isWorthNoting: Bool
        let tables: ConsumedTables

        func acknowledge(_ db: Database, _ name: String) throws {
            try HistoryConsumers.acknowledge(db, name, of: tables, upTo: page.token)
        }
    }

    /// The number of rows of other tables after which the row of a consumer is updated, so that it does not hold pruning up any
    /// longer.
    private static let longestUnnoted = 1000

    /// Returns nil when something must be written first: the consumer is new, or triggers must be created again.
    func next(_ db: Database) throws -> Step? {
        let state = try HistoryState(db)
        guard let consumer = try HistoryConsumers.find(db, name, state) else { return nil }
        try consumer.check(state)
        let chosen = try state.chosen(db, tables)
        let asked = tables == nil ? ConsumedTables.all : .some(Set(chosen.map(\.id)))
        guard asked.isSubset(of: consumer.tables) else {
            throw HistoryError.startOver(reason: .tablesAdded, token: state.lastToken)
        }
        if chosen.contains(where: { $0.state == .recording && !$0.isIntact }) { return nil }
        let page = try state.page(db, after: consumer.token, in: tables, limit: limit)
        let isFarBehind = page.token.sequence - consumer.token.sequence >= Self.longestUnnoted
        let isWorthNoting = try !page.changes.isEmpty || isFarBehind || HistoryConsumers.shouldBeSeen(db, consumer)
        return Step(page: page, isWorthNoting: isWorthNoting, tables: asked)
    }

    /// Creates missing triggers again, and registers a new consumer. An error of the history is returned and not thrown, so that the
    /// transaction is committed.
    func nextInWrite(_ db: Database) throws -> Result<Step?, HistoryError> {
        do {
            if let step = try next(db) { return .success(step) }
            try TrackedTable.synchronize(db)
            let state = try HistoryState(db)
            if try HistoryConsumers.find(db, name, state) == nil {
                _ = try state.chosen(db, tables)
                try HistoryConsumers.put(db, name, at: state.lastSequence, state: .starting)
            }
            return .success(try next(db))
        } catch let error as HistoryError {
            return .failure(error)
        }
    }

    /// Runs the whole round in one write transaction.
    func run(
        _ db: Database,
        _ body: (Database, [HistoryChange]) throws -> Void
    ) throws -> Result<HistoryPage, HistoryError> {
        switch try nextInWrite(db) {
        case .failure(let error): return .failure(error)
        case .success(nil): return .failure(.notEnabled(path: db.filePath))
        case .success(let step?):
            if !step.page.changes.isEmpty { try body(db, step.page.changes) }
            if step.isWorthNoting { try step.acknowledge(db, name) }
            return .success(step.page)
        }
    }

    static func restart(_ db: Database, _ name: String, at token: HistoryToken?) throws {
        let state = try HistoryState(db)
        if let token, token.identity != state.identity {
            throw HistoryError.startOver(reason: .otherHistory, token: state.lastToken)
        }
        try HistoryConsumers.put(db, name, at: token?.sequence ?? state.lastSequence)
    }
}
