import Foundation
import GRDB

/// How much of the history is kept. Stored in the database, so that all processes agree; whoever may write the database may
/// change them, and the last one to do so decides.
///
/// Changes are kept until the slowest consumer has acknowledged them, within the two limits. Without consumers, the limits
/// alone decide. Pruning happens a little at a time, by whoever writes, so somewhat more may be there.
public struct HistorySettings: Hashable, Sendable, Codable {
    /// Changes older than this are pruned, acknowledged or not.
    public var maximumAge: Duration = .seconds(30 * 86_400)

    /// When there are more changes, the oldest are pruned, acknowledged or not. About 50 bytes each. At least 1.
    public var maximumCount = 1_000_000

    /// The latest changes, so many of them, are kept even when all consumers have acknowledged them: for readers that keep
    /// their own token.
    public var minimumCount = 10_000

    /// A consumer that was not seen for so long is dropped: nothing is kept for it any more, and when it returns it is told
    /// ``HistoryError/StartOverReason/consumerDropped(lastSeen:)``.
    public var consumerTimeout: Duration = .seconds(14 * 86_400)

    public init() {}
}

extension HistorySettings {
    init(_ row: Row) {
        maximumAge = .seconds(row["maximum_age"] as Double)
        maximumCount = row["maximum_count"]
        minimumCount = row["minimum_count"]
        consumerTimeout = .seconds(row["consumer_timeout"] as Double)
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
