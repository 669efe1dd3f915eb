import Foundation
import GRDB

extension DatabaseHistory {
    /// How much of the history is kept. The settings are stored in the database, so that all processes agree. Every program that may
    /// write the database may change them, and the last change applies.
    ///
    /// Changes are kept until the slowest consumer has acknowledged them, within the two limits. Without consumers, the limits alone
    /// apply. Writers prune a little at a time, so somewhat more changes may be kept.
    public struct Settings: Hashable, Sendable, Codable {
        /// Changes older than this are pruned, acknowledged or not.
        public var maximumAge: Duration = .seconds(30 * 86_400)

        /// When there are more changes, the oldest are pruned, acknowledged or not. A change takes about 50 bytes. At least 1.
        public var maximumCount = 1_000_000

        /// The number of the latest changes that are kept even when all consumers have acknowledged them, for readers that keep their own
        /// token.
        public var minimumCount = 10_000

        /// A consumer that was not seen for this time is dropped: no changes are kept for it any more, and its next call throws
        /// ``HistoryError/StartOverReason/consumerDropped(lastSeen:)``.
        public var consumerTimeout: Duration = .seconds(14 * 86_400)

        public init() {}
    }
}

extension DatabaseHistory.Settings {
    init(_ row: Row, _ db: Database) throws {
        maximumAge = Duration(storedSeconds: try row.historyValue("maximum_age", db))
        maximumCount = try row.historyValue("maximum_count", db)
        minimumCount = try row.historyValue("minimum_count", db)
        consumerTimeout = Duration(storedSeconds: try row.historyValue("consumer_timeout", db))
    }

    func store(_ db: Database) throws {
        try db.execute(
            sql: """
                UPDATE main.roundtable_history_settings
                SET maximum_age = ?, maximum_count = ?, minimum_count = ?, consumer_timeout = ?
                """,
            arguments: [
                maximumAge / .seconds(1), max(1, maximumCount), max(0, minimumCount), consumerTimeout / .seconds(1),
            ]
        )
    }
}
