import Foundation
import GRDB

/// Takes away what nobody needs any more, a little at a time (rule H10).
enum HistoryPruning {
    /// A participant prunes after it has written so many rows of the history.
    static let interval = 64
    /// So many rows go at once. More than the interval: a history that is too long gets shorter.
    static let batch: Int64 = 256

    /// Inside a write transaction.
    static func step(_ db: Database) throws {
        guard try HistoryTables.exist(db) else { return }
        try HistoryState.checkFormat(db)
        guard let row = try Row.fetchOne(db, sql: "SELECT * FROM main.roundtable_history_settings") else { return }
        let settings = HistorySettings(row)
        let now = Date().timeIntervalSince1970
        try dropConsumers(db, notSeenSince: now - settings.consumerTimeout / .seconds(1))

        // One aggregate a query: two would read the whole table.
        let bounds = """
            SELECT (SELECT min(sequence) FROM main.roundtable_history), (SELECT max(sequence) FROM main.roundtable_history)
            """
        guard let range = try Row.fetchOne(db, sql: bounds), let first: Int64 = range[0], let last: Int64 = range[1]
        else { return }
        let cutoff = now - settings.maximumAge / .seconds(1)
        // Rule H3: the last row stays.
        let end = min(
            max(
                min(try slowestConsumer(db) ?? 0, last - Int64(settings.minimumCount)),
                last - Int64(settings.maximumCount),
                try lastOfBatch(db, from: first, olderThan: cutoff) ?? 0
            ),
            first + batch - 1,
            last - 1
        )
        guard end >= first else { return }
        try db.execute(sql: "DELETE FROM main.roundtable_history WHERE sequence <= ?", arguments: [end])
        try db.execute(sql: "UPDATE main.roundtable_history_settings SET kept_after = ?", arguments: [end])
        // No statement is under way that could have noted something (rule H7).
        try db.execute(sql: "DELETE FROM main.roundtable_history_conflicts WHERE cause IS NOT NULL")
    }

    private static func dropConsumers(_ db: Database, notSeenSince time: Double) throws {
        let overdue = "state <> 'dropped' AND seen < ?"
        let count = "SELECT count(*) FROM main.roundtable_history_consumers WHERE \(overdue)"
        guard try Int.fetchOne(db, sql: count, arguments: [time]) ?? 0 > 0 else { return }
        try db.execute(
            sql: "UPDATE main.roundtable_history_consumers SET state = 'dropped' WHERE \(overdue)",
            arguments: [time]
        )
    }

    private static func slowestConsumer(_ db: Database) throws -> Int64? {
        let sql = "SELECT min(sequence) FROM main.roundtable_history_consumers WHERE state <> 'dropped'"
        return try Int64.fetchOne(db, sql: sql)
    }

    private static func lastOfBatch(_ db: Database, from first: Int64, olderThan time: Double) throws -> Int64? {
        let sql = "SELECT max(sequence) FROM main.roundtable_history WHERE sequence < ? AND time < ?"
        return try Int64.fetchOne(db, sql: sql, arguments: [first + batch, time])
    }
}
