import Foundation
import GRDB

/// Consumers: readers whose place is kept in the database. See <doc:History>.
extension SharedDatabase {
    /// Hands out the changes that the consumer has not acknowledged yet, and acknowledges them when `body` has returned: each
    /// change *at least once*. If `body` throws, or the process dies, the same changes come again.
    ///
    /// A consumer that is new starts over like one that missed something: one path for both.
    ///
    /// ```swift
    /// do {
    ///     while try await db.consume(as: "indexer", { changes in try await index.update(changes) }).hasMore {}
    /// } catch HistoryError.startOver(_, let token) {
    ///     try await index.rebuild(from: db)
    ///     try await db.restartHistoryConsumer("indexer", at: token)
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - name: the consumer's. Two processes that use the same one may both get a change.
    ///   - tables: only the changes of these; nil for all that are recorded. Asking for fewer than before is well, asking for
    ///     more starts over: the changes of the others were acknowledged already.
    ///   - limit: the most changes that are handed out at once.
    ///   - body: called outside of any transaction, unless there is nothing new.
    /// - returns: what was handed out. Call again at once while it `hasMore`.
    /// - throws: ``HistoryError/startOver(reason:token:)`` when changes are missing, until the consumer is told to go on by
    ///   ``restartHistoryConsumer(_:at:)``; ``HistoryError/readOnly(path:)``; ``HistoryError/notEnabled(path:)``,
    ///   ``HistoryError/notTracked(path:table:)``; what `body`, `read` and `write` throw.
    @discardableResult
    public func consume(
        as name: String,
        in tables: [String]? = nil,
        limit: Int = 1000,
        _ body: @Sendable ([HistoryChange]) async throws -> Void
    ) async throws -> HistoryPage {
        try checkMayConsume()
        let consumption = Consumption(name: name, tables: tables, limit: limit)
        var step = try await read { db in try consumption.next(db) }
        if step == nil { step = try await write { db in try consumption.nextInWrite(db) }.get() }
        guard let step else { throw HistoryError.notEnabled(path: path) }
        let page = step.page
        if !page.changes.isEmpty { try await body(page.changes) }
        if step.isWorthNoting { try await write { db in try step.acknowledge(db, name) } }
        return page
    }

    /// The same, blocking the calling thread.
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
        var step = try read { db in try consumption.next(db) }
        if step == nil { step = try write { db in try consumption.nextInWrite(db) }.get() }
        guard let step else { throw HistoryError.notEnabled(path: path) }
        let page = step.page
        if !page.changes.isEmpty { try body(page.changes) }
        if step.isWorthNoting { try write { db in try step.acknowledge(db, name) } }
        return page
    }

    /// Hands out changes in a write transaction, and acknowledges them in the same: what `body` writes into this database
    /// happens *exactly once* for each change. Effects elsewhere happen at least once.
    ///
    /// All other writers wait meanwhile: a small `limit` keeps that short. What `body` writes into recorded tables will be handed
    /// out too, with this participant as ``HistoryChange/author``.
    ///
    /// - throws: as ``consume(as:in:limit:_:)``. If `body` throws, nothing is written or acknowledged.
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
        let result = try await write(file: file, line: line) { db in try consumption.run(db, path: self.path, body) }
        return try result.get()
    }

    /// The same, blocking the calling thread.
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
        return try write(file: file, line: line) { db in try consumption.run(db, path: self.path, body) }.get()
    }

    /// Sets a consumer's place: after it was told to start over and has done so, to the token that came with the error; or to
    /// register it before it consumes for the first time.
    ///
    /// Until this is called, a consumer that must start over is told so each time: one that dies while it does begins anew.
    ///
    /// - parameter token: nil for the end of the history.
    /// - throws: ``HistoryError/notEnabled(path:)``, ``HistoryError/readOnly(path:)``; ``HistoryError/startOver(reason:token:)``
    ///   for a token of another history.
    public func restartHistoryConsumer(_ name: String, at token: HistoryToken? = nil) async throws {
        try checkMayConsume()
        try await write { db in try Consumption.restart(db, name, at: token) }
    }

    /// The same, blocking the calling thread.
    @_disfavoredOverload
    public func restartHistoryConsumer(_ name: String, at token: HistoryToken? = nil) throws {
        try checkMayConsume()
        try write { db in try Consumption.restart(db, name, at: token) }
    }

    /// All consumers, dropped ones too.
    ///
    /// - throws: ``HistoryError/notEnabled(path:)``; what `read` throws.
    public func historyConsumers() async throws -> [HistoryConsumer] {
        try await read { db in try HistoryConsumers.fetchAll(db) }
    }

    /// The same, blocking the calling thread.
    @_disfavoredOverload
    public func historyConsumers() throws -> [HistoryConsumer] {
        try read { db in try HistoryConsumers.fetchAll(db) }
    }

    /// The same, of what `db` sees.
    public static func historyConsumers(in db: Database) throws -> [HistoryConsumer] {
        try HistoryConsumers.fetchAll(db)
    }

    /// Keeps nothing for a consumer any more. Should it return, it is told to start over.
    ///
    /// - returns: whether there was one.
    /// - throws: ``HistoryError/notEnabled(path:)``, ``HistoryError/readOnly(path:)``; what `write` throws.
    @discardableResult
    public func dropHistoryConsumer(_ name: String) async throws -> Bool {
        try checkMayConsume()
        return try await write { db in try HistoryConsumers.drop(db, name) }
    }

    /// The same, blocking the calling thread.
    @_disfavoredOverload
    @discardableResult
    public func dropHistoryConsumer(_ name: String) throws -> Bool {
        try checkMayConsume()
        return try write { db in try HistoryConsumers.drop(db, name) }
    }

    private func checkMayConsume() throws {
        if role == .readOnly { throw HistoryError.readOnly(path: path) }
    }
}

/// One round of a consumer.
private struct Consumption: Sendable {
    let name: String
    let tables: [String]?
    let limit: Int

    struct Step: Sendable {
        let page: HistoryPage
        /// Whether the consumer's row shall be written although nothing was handed out.
        let isWorthNoting: Bool
        let tables: ConsumedTables

        func acknowledge(_ db: Database, _ name: String) throws {
            try HistoryConsumers.acknowledge(db, name, of: tables, upTo: page.token)
        }
    }

    /// A consumer whose tables do not change holds pruning up by so many rows of other tables at most.
    private static let longestUnnoted = 1000

    /// nil when something must be written first: the consumer is new, or triggers must be put back.
    func next(_ db: Database) throws -> Step? {
        let state = try HistoryState(db)
        guard let consumer = try HistoryConsumers.find(db, name, state) else { return nil }
        try consumer.check(state)
        let chosen = try state.chosen(db, tables)
        let asked = tables == nil ? ConsumedTables.all : .some(Set(chosen.map(\.id)))
        try consumer.check(state, mayAskFor: asked)
        if chosen.contains(where: { $0.state == .recording && !$0.isIntact }) { return nil }
        let page = try state.page(db, HistoryState.Request(token: consumer.token, tables: tables, limit: limit))
        let isFarBehind = page.token.sequence - consumer.token.sequence >= Self.longestUnnoted
        let isWorthNoting = try !page.changes.isEmpty || isFarBehind || HistoryConsumers.shouldBeSeen(db, consumer)
        return Step(page: page, isWorthNoting: isWorthNoting, tables: asked)
    }

    /// Puts back what is missing, and registers a new consumer. An error of the history is returned and not thrown, so that the
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

    /// All of it in one write transaction.
    func run(
        _ db: Database,
        path: String,
        _ body: (Database, [HistoryChange]) throws -> Void
    ) throws -> Result<HistoryPage, HistoryError> {
        switch try nextInWrite(db) {
        case .failure(let error): return .failure(error)
        case .success(nil): return .failure(.notEnabled(path: path))
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
