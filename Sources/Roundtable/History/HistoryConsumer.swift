import Foundation
import GRDB

/// Somebody who follows the history by name, with its place kept in the database.
public struct HistoryConsumer: Hashable, Sendable {
    public let name: String
    /// The changes up to here are acknowledged.
    public let token: HistoryToken
    /// When it last consumed, by the clock of the machine. Being up to date, it is noted at a twentieth of
    /// ``HistorySettings/consumerTimeout`` only.
    public let lastSeen: Date
    public let state: State
    /// How many rows of the history come after its token, those of other tables included.
    public let backlog: Int
    /// Of which tables it was handed all changes up to its token.
    let tables: ConsumedTables

    public enum State: String, Sendable, Codable {
        /// It is handed the changes after its token.
        case following
        /// It is new, and has not said yet that it has read the tables. What comes after its token is kept for it.
        case starting
        /// Nothing is kept for it, and it will be told when it returns.
        case dropped
    }
}

/// The rows of `roundtable_history_consumers` (rule H11). All inside a transaction.
enum HistoryConsumers {
    static func fetchAll(_ db: Database) throws -> [HistoryConsumer] {
        let state = try HistoryState(db)
        let rows = try Row.fetchAll(db, sql: "SELECT * FROM main.roundtable_history_consumers ORDER BY name")
        return rows.map { HistoryConsumer($0, state) }
    }

    static func find(_ db: Database, _ name: String, _ state: HistoryState) throws -> HistoryConsumer? {
        let sql = "SELECT * FROM main.roundtable_history_consumers WHERE name = ?"
        return try Row.fetchOne(db, sql: sql, arguments: [name]).map { HistoryConsumer($0, state) }
    }

    /// Registers a consumer, or moves it, or takes a dropped one back.
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

    /// Moves a consumer forward. Two processes may consume by the same name: the one that is behind does not move it back.
    ///
    /// - throws: ``HistoryError/startOver(reason:token:)`` when it was dropped, or the history is another one, meanwhile.
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
        // Who moves it has seen only its own tables on the way.
        let isAhead = token.sequence > consumer.token.sequence
        try put(
            db,
            name,
            at: max(consumer.token.sequence, token.sequence),
            tables: isAhead ? consumer.tables.intersection(tables) : consumer.tables
        )
        // A consumer that only reads others' changes is the one who makes room.
        try HistoryPruning.step(db)
    }

    /// A dropped one stays, so that it is told.
    static func drop(_ db: Database, _ name: String) throws -> Bool {
        _ = try HistoryState(db)
        try db.execute(
            sql: "UPDATE main.roundtable_history_consumers SET state = 'dropped' WHERE name = ? AND state <> 'dropped'",
            arguments: [name]
        )
        return db.changesCount > 0
    }

    /// Whether it is time to note that the consumer is alive.
    static func shouldBeSeen(_ db: Database, _ consumer: HistoryConsumer) throws -> Bool {
        let sql = "SELECT consumer_timeout FROM main.roundtable_history_settings"
        let timeout = try Double.fetchOne(db, sql: sql) ?? 0
        return abs(consumer.lastSeen.timeIntervalSinceNow) > timeout / 20
    }
}

extension HistoryConsumer {
    fileprivate init(_ row: Row, _ state: HistoryState) {
        name = row["name"]
        token = HistoryToken(identity: state.identity, sequence: row["sequence"])
        lastSeen = Date(timeIntervalSince1970: row["seen"])
        // Unknown words can only come from a later format, which is refused.
        self.state = State(rawValue: row["state"]) ?? .dropped
        backlog = Int(max(0, state.lastSequence - token.sequence))
        tables = ConsumedTables(stored: row["tables"])
    }

    func check(_ state: HistoryState, mayAskFor asked: ConsumedTables) throws {
        guard asked.isSubset(of: tables) else {
            throw HistoryError.startOver(reason: .tablesAdded, token: state.lastToken)
        }
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
