import Foundation
import GRDB
import Hummingbird
import Logging
import Roundtable
import ServiceLifecycle

/// Values of Hummingbird's persist framework, such as sessions and rate limits, in a shared database: all servers on the machine have the same, and
/// a restart keeps them.
///
/// Expiries are dates, because processes have no other clock in common that goes on across restarts. Several tasks and
/// several processes may use a driver at the same time. Add it to a `ServiceGroup` before the application, and after the service of the database:
/// it removes expired values while it runs.
public struct SharedPersistDriver: PersistDriver {
    private let database: SharedDatabase
    private let interval: Duration
    private let logger: Logger
    private let now: @Sendable () -> Date

    /// - Parameters:
    ///   - database: a database with the table of `PersistedValues.createTable(in:)`.
    ///   - interval: the time between two removals of expired values.
    ///   - logger: gets the failures of removals. They are tried again after the interval.
    ///   - now: the clock of the expiries.
    public init(
        _ database: SharedDatabase,
        removingExpiredEvery interval: Duration = .seconds(600),
        logger: Logger,
        now: @escaping @Sendable () -> Date = { Date() }
    ) {
        self.database = database
        self.interval = interval
        self.logger = logger
        self.now = now
    }

    public func create<Object: Codable & Sendable>(key: String, value: Object, expires: Duration?) async throws {
        let value = try JSONEncoder().encode(value)
        let isNew = try await database.write { db in
            let time = time
            try db.execute(
                sql: """
                    INSERT INTO persisted_value (key, value, expires) VALUES (?, ?, ?)
                    ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires = excluded.expires WHERE expires <= ?
                    """,
                arguments: [key, value, expires.map { time + $0 / .seconds(1) }, time]
            )
            return db.changesCount > 0
        }
        guard isNew else { throw PersistError.duplicate }
    }

    public func set<Object: Codable & Sendable>(key: String, value: Object, expires: Duration?) async throws {
        let value = try JSONEncoder().encode(value)
        try await database.write { db in
            let time = time
            // The expiry of a value that is still there is kept.
            try db.execute(
                sql: """
                    INSERT INTO persisted_value (key, value, expires) VALUES (?, ?, ?)
                    ON CONFLICT (key) DO UPDATE SET value = excluded.value,
                    expires = coalesce(excluded.expires, CASE WHEN expires > ? THEN expires END)
                    """,
                arguments: [key, value, expires.map { time + $0 / .seconds(1) }, time]
            )
        }
    }

    public func get<Object: Codable & Sendable>(key: String, as type: Object.Type) async throws -> Object? {
        try await getWithTTL(key: key, as: type)?.object
    }

    public func getWithTTL<Object: Codable & Sendable>(
        key: String,
        as type: Object.Type
    ) async throws -> (object: Object, ttl: Duration?)? {
        try await database.read { db in
            let time = time
            let row = try Row.fetchOne(
                db,
                sql: "SELECT value, expires FROM persisted_value WHERE key = ? AND (expires IS NULL OR expires > ?)",
                arguments: [key, time]
            )
            guard let row else { return nil }
            guard let object = try? JSONDecoder().decode(type, from: row["value"]) else {
                throw PersistError.invalidConversion
            }
            return (object, (row["expires"] as Double?).map { .seconds($0 - time) })
        }
    }

    public func remove(key: String) async throws {
        try await database.write { db in
            try db.execute(sql: "DELETE FROM persisted_value WHERE key = ?", arguments: [key])
        }
    }

    /// Removes expired values until the server shuts down.
    public func run() async throws {
        try? await cancelWhenGracefulShutdown {
            while true {
                try await Task.sleep(for: interval)
                do {
                    try await removeExpired()
                } catch {
                    logger.warning("expired values were not removed: \(error)")
                }
            }
        }
    }

    /// Removes expired values in short transactions, after all other writes.
    ///
    /// - returns: how many there were.
    @discardableResult
    public func removeExpired() async throws -> Int {
        var total = 0
        while true {
            let count = try await database.write(priority: .background) { db in
                try db.execute(
                    sql: """
                        DELETE FROM persisted_value WHERE key IN
                        (SELECT key FROM persisted_value WHERE expires <= ? LIMIT 1000)
                        """,
                    arguments: [time]
                )
                return db.changesCount
            }
            total += count
            if count < 1_000 { return total }
        }
    }

    private var time: Double { now().timeIntervalSince1970 }
}
