import Foundation
import GRDB

/// Deletes changes that are not needed any more, a little at a time (rule H10).
enum HistoryPruning {
    /// A participant prunes after it has written this many rows of the history.
    static let interval = 128
    /// The most rows that are deleted in one transaction. This is more than the interval, so that a history that is too long becomes
    /// shorter.
    static let batch: Int64 = 512

    /// Prunes once. Must be called inside a write transaction. Its statements are cached, because there is mostly nothing to do.
    static func step(_ db: Database) throws {
        guard try HistoryTables.exist(db), let row = try fetchOne(db, "SELECT * FROM main.roundtable_history_settings")
        else { return }
        let format: Int = try row.historyValue("format", db)
        guard format <= HistoryTables.format else { return }
        let settings = try DatabaseHistory.Settings(row, db)
        let now = Date().timeIntervalSince1970
        try dropConsumers(db, notSeenSince: now - settings.consumerTimeout / .seconds(1))
        // No statement is running that could have taken notes (rule H7).
        try db.cachedStatement(sql: "DELETE FROM main.roundtable_history_conflicts WHERE cause IS NOT NULL").execute()

        guard let range = try fetchOne(db, range) else { return }
        let first: Int64 = try range.historyValue("first", db)
        let last: Int64 = try range.historyValue("last", db)
        let smallest: Int64? = try range.historyValue("acknowledged", db)
        let acknowledged = smallest ?? 0
        var end = max(
            min(acknowledged, last.subtractingSaturating(Int64(settings.minimumCount))),
            last.subtractingSaturating(Int64(settings.maximumCount))
        )
        let cutoff = now - settings.maximumAge / .seconds(1)
        if try range.historyValue("time", db) < cutoff {
            end = max(end, try lastOfBatch(db, from: first, olderThan: cutoff))
        }
        // The last row stays (rule H3).
        end = min(end, first.addingSaturating(batch - 1), last.subtractingSaturating(1))
        guard end >= first else { return }
        try db.execute(sql: "DELETE FROM main.roundtable_history WHERE sequence <= ?", arguments: [end])
        try db.execute(sql: "UPDATE main.roundtable_history_settings SET kept_after = ?", arguments: [end])
    }

    /// Each query has only one aggregate, because SQLite would read the whole table for two.
    private static let range = """
        SELECT sequence AS first, time,
            (SELECT max(sequence) FROM main.roundtable_history) AS last,
            (SELECT min(sequence) FROM main.roundtable_history_consumers WHERE state <> 'dropped') AS acknowledged
        FROM main.roundtable_history ORDER BY sequence LIMIT 1
        """

    private static func fetchOne(
        _ db: Database,
        _ sql: String,
        _ arguments: StatementArguments = StatementArguments()
    ) throws -> Row? {
        try Row.fetchOne(db.cachedStatement(sql: sql), arguments: arguments)
    }

    private static func dropConsumers(_ db: Database, notSeenSince time: Double) throws {
        let overdue = "main.roundtable_history_consumers WHERE state <> 'dropped' AND seen < ?"
        guard try fetchOne(db, "SELECT 1 FROM \(overdue)", [time]) != nil else { return }
        try db.execute(
            sql: """
                UPDATE main.roundtable_history_consumers SET state = 'dropped' WHERE state <> 'dropped' AND seen < ?
                """,
            arguments: [time]
        )
    }

    private static func lastOfBatch(_ db: Database, from first: Int64, olderThan time: Double) throws -> Int64 {
        let sql = "SELECT max(sequence) FROM main.roundtable_history WHERE sequence < ? AND time < ?"
        return try Int64.fetchOne(db, sql: sql, arguments: [first.addingSaturating(batch), time]) ?? 0
    }
}
