import Foundation
import GRDB
import RoundtableTestSupport

/// The expected content of the database of a schedule, and the changes to it.
struct ScheduleContent {
    var rows = Rows()
    private var random: SeededGenerator
    private var lastTag: Int64 = 0

    init(seed: UInt64) { random = SeededGenerator(seed: seed) }

    static func create(_ db: Database) throws {
        try db.execute(
            sql: """
                CREATE TABLE entry (id INTEGER PRIMARY KEY, tag INTEGER NOT NULL UNIQUE, payload BLOB NOT NULL)
                """
        )
    }

    /// The rows of the table, by key. A payload is computed from tag and size.
    struct Rows {
        struct Row: Equatable {
            var tag: Int64
            var size: Int

            var payload: Data { Data(repeating: UInt8(truncatingIfNeeded: tag), count: size) }
        }

        var rows: [Int64: Row] = [:]

        func compare(with db: Database) throws {
            var found = 0
            let cursor = try GRDB.Row.fetchCursor(db, sql: "SELECT id, tag, payload FROM entry")
            while let row = try cursor.next() {
                let id: Int64 = row["id"]
                guard let expected = rows[id] else { throw TestKitError("row \(id) is there, and must not be") }
                let tag: Int64 = row["tag"]
                guard tag == expected.tag, row["payload"] == expected.payload else {
                    throw TestKitError("row \(id) is not as it was written last")
                }
                found += 1
            }
            guard found == rows.count else {
                throw TestKitError("\(rows.count - found) of \(rows.count) rows are lost")
            }
        }
    }

    /// A transaction, and the content of the table after its commit.
    struct Change {
        fileprivate(set) var rows: Rows
        fileprivate var changed: [Int64] = []

        func apply(to db: Database) throws {
            let put = try db.cachedStatement(sql: "INSERT OR REPLACE INTO entry (id, tag, payload) VALUES (?, ?, ?)")
            let delete = try db.cachedStatement(sql: "DELETE FROM entry WHERE id = ?")
            for id in changed {
                if let row = rows.rows[id] {
                    try put.execute(arguments: [id, row.tag, row.payload])
                } else {
                    try delete.execute(arguments: [id])
                }
            }
        }
    }

    /// A change of small rows. About half of the rows are new, the others are replaced or deleted.
    mutating func smallChange(rows count: Int) -> Change {
        change(count, size: 300, replaced: 0.4, deleted: 0.1)
    }

    /// A change of large rows, which are all new. Each row takes 65 pages.
    mutating func largeChange(rows count: Int) -> Change {
        change(count, size: 32_768, replaced: 0, deleted: 0)
    }

    private mutating func change(_ count: Int, size: Int, replaced: Double, deleted: Double) -> Change {
        var change = Change(rows: rows)
        // The keys are sorted, because the order of a dictionary differs each time, and the seed must determine the change.
        var old = rows.rows.keys.sorted()
        for _ in 0..<count {
            lastTag += 1
            let choice = Double.random(in: 0..<1, using: &random)
            let row = Rows.Row(tag: lastTag, size: size)
            if choice < replaced + deleted, !old.isEmpty {
                let id = old.remove(at: Int.random(in: 0..<old.count, using: &random))
                change.rows.rows[id] = choice < deleted ? nil : row
                change.changed.append(id)
            } else {
                change.rows.rows[lastTag] = row
                change.changed.append(lastTag)
            }
        }
        return change
    }
}
