import Foundation
import GRDB

/// A reader that follows the history by name, and whose position is stored in the database.
public struct HistoryConsumer: Hashable, Sendable {
    public let name: String
    /// The position up to which changes are acknowledged.
    public let token: HistoryToken
    /// When the consumer last consumed, by the clock of the machine. While the consumer is up to date, this is updated only once per
    /// twentieth of ``DatabaseHistory/Settings/consumerTimeout``.
    public let lastSeen: Date
    public let state: State
    /// The number of rows of the history after the consumer's token, including those of other tables.
    public let backlog: Int
    /// The tables of which the consumer was handed all changes up to its token.
    let tables: ConsumedTables

    public enum State: String, Sendable, Codable {
        /// The consumer is handed the changes after its token.
        case following
        /// The consumer is new, and has not confirmed yet that it has read the tables. Changes after its token are kept for it.
        case starting
        /// No changes are kept for the consumer, and it must start over when it returns.
        case dropped
    }
}

/// Reads and writes the rows of `roundtable_history_consumers` (rule H11). All functions must be called inside a transaction.
enum HistoryConsumers {
    static func fetchAll(_ db: Database) throws -> [HistoryConsumer] {
        let state = try HistoryState(db)
        let rows = try Row.fetchAll(db, sql: "SELECT * FROM main.roundtable_history_consumers ORDER BY name")
        return try rows.map { try HistoryConsumer($0, state, db) }
    }

    static func find(_ db: Database, _ name: String, _ state: HistoryState) throws -> HistoryConsumer? {
        let sql = "SELECT * FROM main.roundtable_history_consumers WHERE name = ?"
        return try Row.fetchOne(db, sql: sql, arguments: [name]).map { try HistoryConsumer($0, state, db) }
    }

    /// Registers a consumer, moves it, or restores a dropped one.
    static func put(
        _ db: Database,
        _ name: String,
        at sequence: Int64,
        state: HistoryConsumer.State = .following,
        tables: ConsumedTables = .any
    ) throws {
        try db.execute(
            sql: """
                INSERT INTO main.roundtable_history_consumers (name, sequence, seen, state, tables) VALUES (?, ?, ?, ?, ?)
                ON CONFLICT (name) DO UPDATE
                SET sequence = excluded.sequence, seen = excluded.seen, state = excluded.state, tables = excluded.tables
                """,
            arguments: [name, sequence, Date().timeIntervalSince1970, state.rawValue, tables.stored]
        )
    }

    /// Moves a consumer forward. Two processes may consume by the same name, and the process that is behind does not move the
    /// consumer back.
    ///
    /// - throws: ``HistoryError/startOver(reason:token:)`` when the consumer was dropped meanwhile, or the history is another one.
    static func acknowledge(
        _ db: Database,
        _ name: String,
        of tables: ConsumedTables,
        upTo token: HistoryToken
    ) throws {
        let state = try HistoryState(db)
        guard token.identity == state.identity else {
            throw HistoryError.startOver(reason: .otherHistory, token: state.lastToken)
        }
        guard let consumer = try find(db, name, state) else {
            throw HistoryError.startOver(reason: .newConsumer, token: state.lastToken)
        }
        try consumer.check(state)
        // The process that moves the consumer has handed out only its own tables on the way.
        let isAhead = token.sequence > consumer.token.sequence
        try put(
            db,
            name,
            at: max(consumer.token.sequence, token.sequence),
            tables: isAhead ? consumer.tables.intersection(tables) : consumer.tables
        )
        // A process that only consumes writes no rows of the history, so pruning happens here, too.
        try HistoryPruning.step(db)
    }

    /// Marks a consumer as dropped. Its row stays, so that the consumer must start over when it returns.
    static func drop(_ db: Database, _ name: String) throws -> Bool {
        _ = try HistoryState(db)
        try db.execute(
            sql: "UPDATE main.roundtable_history_consumers SET state = 'dropped' WHERE name = ? AND state <> 'dropped'",
            arguments: [name]
        )
        return db.changesCount > 0
    }

    /// Whether it is time to record that the consumer is alive.
    static func shouldBeSeen(_ db: Database, _ consumer: HistoryConsumer) throws -> Bool {
        let sql = "SELECT consumer_timeout FROM main.roundtable_history_settings"
        let timeout: Double = try Row.fetchOne(db, sql: sql)?.historyValue("consumer_timeout", db) ?? 0
        return abs(consumer.lastSeen.timeIntervalSinceNow) > timeout / 20
    }
}

extension HistoryConsumer {
    fileprivate init(_ row: Row, _ state: HistoryState, _ db: Database) throws {
        name = try row.historyValue("name", db)
        token = HistoryToken(identity: state.identity, sequence: try row.historyValue("sequence", db))
        lastSeen = Date(timeIntervalSince1970: try row.historyValue("seen", db))
        // Unknown words can only come from a later format, which is refused.
        self.state = State(rawValue: try row.historyValue("state", db)) ?? .dropped
        backlog = Int(max(0, state.lastSequence.subtractingSaturating(token.sequence)))
        tables = ConsumedTables(stored: try row.historyValue("tables", db))
    }

    func check(_ state: HistoryState) throws {
        switch self.state {
        case .following: break
        case .starting: throw HistoryError.startOver(reason: .newConsumer, token: token)
        case .dropped:
            throw HistoryError.startOver(reason: .consumerDropped(lastSeen: lastSeen), token: state.lastToken)
        }
    }
}
